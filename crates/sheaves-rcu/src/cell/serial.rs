//! Cells in the formats of serde, as their values, with the feature `serde`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::value::{RcuCell, RcuOption};
use crate::reader::guard::read;

impl<T: Serialize> Serialize for RcuCell<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.load(&read()).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for RcuCell<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RcuCell<T>, D::Error> {
        T::deserialize(deserializer).map(RcuCell::new)
    }
}

impl<T: Serialize> Serialize for RcuOption<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.load(&read()).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for RcuOption<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RcuOption<T>, D::Error> {
        let value = Option::<T>::deserialize(deserializer)?;
        Ok(value.map_or_else(RcuOption::empty, RcuOption::new))
    }
}

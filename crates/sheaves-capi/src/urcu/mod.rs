//! Functions of the headers in `include/sheaves-urcu/`, with which programs for liburcu compile
//! unchanged.
//!
//! All flavours are one domain, that of `sheaves_rcu_read_lock`. Written from liburcu's published
//! interface; none of its code is here. The prototypes are in the headers.

/// Defines functions of the headers: name, parameters, result, and value.
macro_rules! exports {
    ($($(#[$doc:meta])*
        $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $value:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            $value
        }
    )*};
}

pub mod calls;
pub mod defer;
pub mod flavor;
pub mod qsbr;

//! Conditions of compilation: which items exist only in test builds or under a model checker.
//!
//! A condition is evaluated with `test`, `loom` and `shuttle` off and everything else unknown. Code
//! whose condition is false is test code; `no_std` under a condition that is true counts as
//! unconditional `no_std`.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Configurations that no shipped build enables.
const TEST_CONFIGURATIONS: [&str; 3] = ["test", "loom", "shuttle"];

/// True when the item with these attributes is compiled only for tests or a model checker.
pub(crate) fn is_only_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else {
            return attribute.path().is_ident("test");
        };
        list.path.is_ident("cfg")
            && list.parse_args::<Meta>().is_ok_and(|meta| in_shipped_build(&meta) == Some(false))
    })
}

/// True when these inner attributes of a crate disable `std` in every shipped build.
pub(crate) fn is_no_std(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("no_std"),
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let Ok(parts) = parts else { return false };
            let mut parts = parts.iter();
            parts.next().is_some_and(|condition| in_shipped_build(condition) == Some(true))
                && parts.any(|part| part.path().is_ident("no_std"))
        }
        _ => false,
    })
}

/// The value of a condition in a shipped build; nothing if it depends on target or features.
fn in_shipped_build(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(path) => {
            TEST_CONFIGURATIONS.iter().any(|name| path.is_ident(name)).then_some(false)
        }
        Meta::NameValue(_) => None,
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let values: Vec<_> = parts.ok()?.iter().map(in_shipped_build).collect();
            if list.path.is_ident("not") {
                values.first().copied().flatten().map(|value| !value)
            } else if list.path.is_ident("all") {
                combine(&values, false)
            } else if list.path.is_ident("any") {
                combine(&values, true)
            } else {
                None
            }
        }
    }
}

/// `all` (`decisive` is false) or `any` (`decisive` is true) of three-valued conditions.
fn combine(values: &[Option<bool>], decisive: bool) -> Option<bool> {
    if values.contains(&Some(decisive)) {
        Some(decisive)
    } else if values.contains(&None) {
        None
    } else {
        Some(!decisive)
    }
}

/// The attributes of an item of any kind.
pub(crate) fn attributes_of(item: &syn::Item) -> &[Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

//! Forms that are nothing but their fields: one declaration gives the type, its reader, its writer and, in tests, its JSON
//! Schema.
//!
//! serde's derive is not used here: it cannot promise which fault of several is told first, nor the codes and paths of the
//! refusals in [`json`](super::json), and a serializer for each type would be most of the wasm.

use super::json::Fields;
use super::written::Value;

/// A value that a field of a form can hold. A field is always there; one that may be `null` is an `Option`.
pub(crate) trait FieldValue: Sized {
    /// Takes the field of this name. A refusal stays in `fields`.
    fn take(fields: &mut Fields, name: &str) -> Self;
    /// The value as it is written.
    fn written(&self) -> Value<'_>;
}

impl FieldValue for Option<String> {
    fn take(fields: &mut Fields, name: &str) -> Self {
        fields.string_or_null(name)
    }

    fn written(&self) -> Value<'_> {
        Value::text_or_null(self.as_deref())
    }
}

impl FieldValue for Option<u64> {
    fn take(fields: &mut Fields, name: &str) -> Self {
        fields.integer_or_null(name)
    }

    fn written(&self) -> Value<'_> {
        self.map_or(Value::Null, Value::Integer)
    }
}

impl FieldValue for Option<Vec<u32>> {
    fn take(fields: &mut Fields, name: &str) -> Self {
        if fields.null(name) { None } else { Some(fields.tokens(name)) }
    }

    fn written(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, |ids| Value::Tokens(ids.into()))
    }
}

/// Declares a struct whose JSON form is an object of its fields, in their order, each a [`FieldValue`].
macro_rules! form {
    ($(#[$of_type:meta])* pub struct $Name:ident { $($(#[$of_field:meta])* pub $field:ident: $Type:ty,)+ }) => {
        $(#[$of_type])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
        pub struct $Name {
            $($(#[$of_field])* pub $field: $Type,)+
        }

        impl $Name {
            /// Reads the form: every field there, `null` where it is not known.
            ///
            /// # Errors
            /// A missing, unknown or mistyped field.
            pub fn from_object(object: $crate::wire::json::Object) -> Result<Self, $crate::wire::json::FieldError> {
                object.read(|it| Ok(Self { $($field: $crate::wire::form::FieldValue::take(it, stringify!($field)),)+ }))
            }

            pub(crate) fn written(&self) -> $crate::wire::written::Value<'_> {
                let mut it = $crate::wire::written::Entries::default();
                $(it.set(stringify!($field), $crate::wire::form::FieldValue::written(&self.$field));)+
                $crate::wire::written::Value::Object(it)
            }
        }

        impl $crate::wire::form::FieldValue for $Name {
            fn take(fields: &mut $crate::wire::json::Fields, name: &str) -> Self {
                fields.form(name, Self::from_object)
            }

            fn written(&self) -> $crate::wire::written::Value<'_> {
                self.written()
            }
        }

        $crate::wire::written::serialize_written!($Name);
    };
}
pub(crate) use form;

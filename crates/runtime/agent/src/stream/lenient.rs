//! Lenient fields: a field of an unexpected type reads as absent.
//!
//! The CLIs change their events often, and a changed field must not lose the whole event. Texts without escapes
//! borrow from the line.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Declares the visitor methods that return "absent".
macro_rules! absent_for {
    ($($visit:ident($type:ty)),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<Self::Value, E> { Ok(Self::Value::default()) })*
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn visit_none<E>(self) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str("anything") }
    };
}

macro_rules! drains_lists {
    () => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

macro_rules! drains_objects {
    () => {
        fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

/// A value without structure; lists and objects read as absent.
#[derive(Default)]
enum Scalar<'a> {
    #[default]
    Absent,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Scalar<'de>;
            absent_for!();
            drains_lists!();
            drains_objects!();
            fn visit_bool<E>(self, truth: bool) -> Result<Self::Value, E> {
                Ok(Scalar::Bool(truth))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Scalar::Unsigned(number))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Scalar::Signed(number))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Scalar::Float(number))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// A string.
#[derive(Debug, Default, Clone)]
pub struct Text<'a>(pub Option<Cow<'a, str>>);

impl<'a> Text<'a> {
    /// Returns the string; empty if absent.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns the string; empty if absent.
    pub fn into_text(self) -> Cow<'a, str> {
        self.0.unwrap_or_default()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Self(Some(text)),
            _ => Self(None),
        })
    }
}

/// A non-negative integer; fractions are truncated, and strings are parsed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Number(pub Option<u64>);

impl<'de> Deserialize<'de> for Number {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates, and counts are far below the limits"
    )]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Unsigned(number) => Some(number),
            Scalar::Signed(number) => u64::try_from(number).ok(),
            Scalar::Float(number) => (number >= 0.0).then_some(number as u64),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Absent | Scalar::Bool(_) => None,
        }))
    }
}

/// A number of any kind.
#[derive(Debug, Default, Clone, Copy)]
pub struct Decimal(pub Option<f64>);

impl<'de> Deserialize<'de> for Decimal {
    #[expect(clippy::cast_precision_loss, reason = "money, not counts")]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Unsigned(number) => Some(number as f64),
            Scalar::Signed(number) => Some(number as f64),
            Scalar::Float(number) => Some(number),
            Scalar::Absent | Scalar::Bool(_) | Scalar::Text(_) => None,
        }))
    }
}

/// A boolean, false if absent; strings are parsed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Flag(pub bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Bool(truth) => truth,
            Scalar::Text(text) => text == "true",
            _ => false,
        }))
    }
}

/// A list, or a bare string instead of one.
#[derive(Debug, Clone)]
pub struct List<'a, T> {
    pub items: Vec<T>,
    /// The string instead of a list.
    pub bare: Option<Cow<'a, str>>,
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self { items: Vec::new(), bare: None }
    }
}

impl<T> List<'_, Object<T>> {
    /// Returns the objects of the list.
    pub fn objects(self) -> impl Iterator<Item = T> {
        self.items.into_iter().filter_map(|item| item.0)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for List<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = List<'de, T>;
            absent_for!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64));
            drains_objects!();
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(List { items: Vec::new(), bare: Some(Cow::Borrowed(text)) })
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(List { items: Vec::new(), bare: Some(Cow::Owned(text.to_owned())) })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(List { items, bare: None })
            }
        }
        deserializer.deserialize_any(Read(PhantomData))
    }
}

/// An object; `None` for any other value.
#[derive(Debug, Clone)]
pub struct Object<T>(pub Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Object<T>;
            absent_for!(
                visit_bool(bool),
                visit_i64(i64),
                visit_u64(u64),
                visit_f64(f64),
                visit_str(&str)
            );
            drains_lists!();
            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
                let access = serde::de::value::MapAccessDeserializer::new(object);
                Ok(Object(Some(T::deserialize(access)?)))
            }
        }
        deserializer.deserialize_any(Read(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Sample<'a> {
        #[serde(borrow, default)]
        text: Text<'a>,
        #[serde(default)]
        number: Number,
        #[serde(default)]
        flag: Flag,
        #[serde(borrow, default)]
        list: List<'a, Object<std::collections::BTreeMap<String, Number>>>,
        #[serde(default)]
        object: Object<std::collections::BTreeMap<String, u64>>,
    }

    #[test]
    fn fields_of_the_expected_type_are_read() {
        let sample: Sample<'_> = serde_json::from_str(
            r#"{"text":"a\n","number":2.7,"flag":true,"list":[{"a":1},null,{"a":2}],"object":{"k":1}}"#,
        )
        .unwrap();
        assert_eq!(sample.text.as_str(), "a\n");
        assert_eq!(sample.number.0, Some(2));
        assert!(sample.flag.0);
        assert_eq!(sample.list.objects().count(), 2);
        assert_eq!(sample.object.0.unwrap()["k"], 1);
    }

    #[test]
    fn a_number_or_a_truth_in_a_string_is_one() {
        let json = r#"{"number":"12","flag":"true"}"#;
        let sample: Sample<'_> = serde_json::from_str(json).unwrap();
        assert_eq!((sample.number.0, sample.flag.0), (Some(12), true));
    }

    #[test]
    fn fields_of_any_other_type_read_as_absent() {
        for other in ["null", "true", "-1", "\"x\"", "[1,[2]]", "{\"a\":{\"b\":1}}"] {
            let object = if other.starts_with('{') { "[]" } else { other };
            let json = format!(
                r#"{{"text":{other},"number":{other},"flag":{other},"list":{other},"object":{object}}}"#
            );
            assert!(serde_json::from_str::<Sample<'_>>(&json).is_ok(), "{other} was not forgiven");
        }
    }
}

//! A duration that is fixed or drawn.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use netrig_core::{DistributionError, Duration, ParseDistributionError, SpanDistribution, setting_texts};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration: `"30 s"`, or drawn as `{ exponential = "30 s" }`.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnTime(pub SpanDistribution);

impl Default for DrawnTime {
    /// Zero.
    fn default() -> Self {
        Self(SpanDistribution::Constant(Duration::ZERO))
    }
}

impl DrawnTime {
    /// The distribution, if the duration is drawn.
    pub fn drawn(&self) -> Option<SpanDistribution> {
        match &self.0 {
            SpanDistribution::Constant(_) => None,
            other => Some(other.clone()),
        }
    }

    /// Checks the parameters of a distribution. A fixed duration may be zero.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn check(&self) -> Result<(), DistributionError> {
        match &self.0 {
            SpanDistribution::Constant(_) => Ok(()),
            drawn => drawn.check(),
        }
    }
}

impl FromStr for DrawnTime {
    type Err = ParseDistributionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for DrawnTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

setting_texts! {
    DrawnTime = "TIME", "`30s`, or drawn: `exponential:30s`, `uniform:10s..50s`, `pareto:30s,1.5` (mean, shape), \
        `lognormal:90s,1` (mean, deviation of the logarithm)";
}

impl Serialize for DrawnTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            SpanDistribution::Constant(span) => span.serialize(serializer),
            drawn => drawn.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for DrawnTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DrawnTimeVisitor;
        impl<'de> de::Visitor<'de> for DrawnTimeVisitor {
            type Value = DrawnTime;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as `30 s`, or how it is drawn, such as `{ exponential = \"30 s\" }`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DrawnTime, E> {
                text.parse().map(|span| DrawnTime(SpanDistribution::Constant(span))).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<DrawnTime, A::Error> {
                SpanDistribution::deserialize(de::value::MapAccessDeserializer::new(map)).map(DrawnTime)
            }
        }
        deserializer.deserialize_any(DrawnTimeVisitor)
    }
}

impl JsonSchema for DrawnTime {
    fn schema_name() -> Cow<'static, str> {
        "DrawnTime".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A time, or how it is drawn.",
            "anyOf": [generator.subschema_for::<Duration>(), generator.subschema_for::<SpanDistribution>()]
        })
    }
}

//! The required agreement of the means of two substrates: `agreement = { within = ["10 %", "20 us"] }`.

use std::borrow::Cow;

use netrig_core::Fraction;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amount::{Amount, TypedAmount};
use crate::check::{SpecError, refuse};
use crate::claim::selection::{OneOrMany, Selection};
use crate::{Factor, Point};

/// The required agreement of a response if a file runs on several substrates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgreementSpec {
    /// Allowed distance of the mean on another substrate from the mean on the first: a share of the first mean such as
    /// `5 %`, a difference in the response's unit such as `20 us`, or `3 pp` (percentage points) of a share. It
    /// suffices that one of several is met.
    pub within: Margins,
    /// The points to which it applies. If not given, all points.
    #[serde(default, rename = "where", skip_serializing_if = "Selection::is_empty")]
    pub at: Selection,
}

/// One or several margins. It suffices if the means agree within one of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Margins(pub(crate) Vec<Amount>);

impl AgreementSpec {
    /// Whether the requirement applies to this point.
    pub(crate) fn applies_at(&self, point: &Point) -> bool {
        self.at.matches(point)
    }

    /// Whether the requirement also applies to the mean over all points.
    ///
    /// With `where`, it does not apply, because the mean includes points that `where` excludes. It applies only to a
    /// share. For an amount, points without any difference (40 of 44 points lose nothing on either substrate) would
    /// reduce a large difference of a few points in the mean. In a ratio of means, such points add nothing to either
    /// mean. Differences of opposite sign cancel in both, so this verdict never replaces the verdicts on single points.
    pub(crate) fn applies_to_all(&self) -> bool {
        self.at.is_empty() && self.within.0.iter().all(Amount::is_share)
    }

    /// Checks the requirement for a response in `unit`. Returns its faults, each with its field.
    pub(super) fn check(&self, unit: &str, factors: &[Factor]) -> Vec<SpecError> {
        let mut errors = Vec::new();
        if self.within.0.is_empty() {
            refuse(&mut errors, "agreement.within", "an amount such as \"5 %\" is missing");
        }
        for margin in &self.within.0 {
            if let Err(error) = margin.of(unit) {
                refuse(&mut errors, "agreement.within", error.to_string());
            } else if margin.value() < 0.0 {
                refuse(&mut errors, "agreement.within", format!("`{margin}` must not be negative"));
            }
        }
        errors.extend(self.at.check("agreement.where", factors));
        errors
    }
}

impl Margins {
    /// The margins.
    pub fn iter(&self) -> std::slice::Iter<'_, Amount> {
        self.0.iter()
    }

    /// The margins as text: `10 % or 20 us`. A margin without a unit is written in the response's unit, or in
    /// percentage points if that unit is percent.
    pub fn written(&self, unit: &str) -> String {
        let one = |margin: &Amount| match (margin.unit(), unit) {
            (Some(_), _) | (None, "1") => margin.to_string(),
            (None, "%") => format!("{margin} pp"),
            (None, unit) => format!("{margin} {unit}"),
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(" or ")
    }
}

impl From<Fraction> for Margins {
    /// One margin, which is a share of the first mean.
    fn from(share: Fraction) -> Self {
        Self(vec![share.into()])
    }
}

impl<'de> Deserialize<'de> for Margins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        OneOrMany::deserialize(deserializer).map(|margins| Self(margins.0))
    }
}

impl JsonSchema for Margins {
    fn schema_name() -> Cow<'static, str> {
        "Margins".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let amount = generator.subschema_for::<Amount>();
        json_schema!({
            "anyOf": [amount, { "type": "array", "minItems": 1, "items": amount }],
            "description": "One or several amounts, one of which suffices.",
            "examples": ["5 %", "3 pp", ["10 %", "20 us"]]
        })
    }
}

/// Serialises each margin as a [`TypedAmount`].
pub(crate) fn typed_margins<S: Serializer>(margins: &Margins, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(margins.0.iter().map(TypedAmount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn spec(text: &str) -> AgreementSpec {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn one_margin_or_several() {
        assert_eq!(spec("within = '5 %'").within.written("B/s"), "5 %");
        assert_eq!(spec("within = ['10 %', '20 us']").within.written("s"), "10 % or 20 us");
        assert_eq!(spec("within = 0.03").within.written("1"), "0.03");
        assert_eq!(spec("within = [3, '10 %']").within.written("%"), "3 pp or 10 %");
        assert_eq!(spec("within = 3").within.written("ms"), "3 ms");
        assert_eq!(Margins::from("7 %".parse::<Fraction>().unwrap()).written("1"), "7 %");
    }

    #[test]
    fn of_all_points_together_only_a_share_is_asked() {
        assert!(spec("within = ['5 %', '10 %']").applies_to_all());
        assert!(!spec("within = ['5 %', '20 us']").applies_to_all());
        assert!(!spec("within = '5 %'\nwhere = { load = 0.5 }").applies_to_all());
    }

    #[test]
    fn what_cannot_be_is_named_by_its_field() {
        let factors = [Factor { name: "load".into(), levels: vec![Level::new("0.5")] }];
        let wrong = |text: &str, unit: &str| -> Vec<String> {
            spec(text).check(unit, &factors).iter().map(ToString::to_string).collect()
        };
        assert_eq!(wrong("within = ['10 %', '20 us']\nwhere = { load = 0.5 }", "ms"), Vec::<String>::new());
        assert_eq!(wrong("within = '3 pp'", "%"), Vec::<String>::new());
        assert_eq!(wrong("within = []", "s"), ["`agreement.within`: an amount such as \"5 %\" is missing"]);
        assert_eq!(
            wrong("within = ['20 us', '-1 %']\nwhere = { rate = 1 }", "B/s"),
            [
                "`agreement.within`: an amount in us cannot be compared with one in B/s",
                "`agreement.within`: `-1 %` must not be negative",
                "`agreement.where.rate`: there is no factor `rate` (there are: load)"
            ]
        );
    }
}

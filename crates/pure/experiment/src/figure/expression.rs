//! Expressions: numbers, amounts, levels of factors and means of responses, combined by `+`, `-`, `*` and `/`: `0.125`,
//! `"1 / interarrival"`, `"8 * size / rate"`, `"0.5 Mbit/s"`.
//!
//! Amounts and levels are converted to base units: s, bit, bit/s, 1.

use std::fmt;
use std::str::FromStr;

use netrig_core::read_from_scalar;
use netrig_core::written::{self, Scalar};
use serde::Deserializer;

use crate::Amount;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: ExpressionNode,
}

#[derive(Clone, Debug, PartialEq)]
enum ExpressionNode {
    Number(f64),
    Named(String),
    Binary(char, Box<ExpressionNode>, Box<ExpressionNode>),
}

/// The text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is neither a number, a factor nor a sum of them: {why}")]
pub struct ExpressionError {
    text: String,
    why: String,
}

/// Greatest depth of nesting. A file never needs more; deeper nesting could overflow the stack.
const DEEPEST: usize = 32;

/// Greatest length in bytes. A file never needs more; a long chain of terms is evaluated by recursion.
const LONGEST: usize = 1000;

impl Expression {
    /// The names of factors and responses in the expression, in the order of the text.
    pub fn names(&self) -> Vec<&str> {
        fn collect<'a>(node: &'a ExpressionNode, into: &mut Vec<&'a str>) {
            match node {
                ExpressionNode::Number(_) => {}
                ExpressionNode::Named(name) => into.push(name),
                ExpressionNode::Binary(_, left, right) => {
                    collect(left, into);
                    collect(right, into);
                }
            }
        }
        let mut names = Vec::new();
        collect(&self.root, &mut names);
        names
    }

    /// The value of the expression. `level` gives the value of a name. `None` if a name has no value, or if the result
    /// is not finite.
    pub fn value(&self, level: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        fn work(node: &ExpressionNode, level: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
            match node {
                ExpressionNode::Number(value) => Some(*value),
                ExpressionNode::Named(name) => level(name),
                ExpressionNode::Binary(operator, left, right) => {
                    let (left, right) = (work(left, level)?, work(right, level)?);
                    Some(match operator {
                        '+' => left + right,
                        '-' => left - right,
                        '*' => left * right,
                        _ => left / right,
                    })
                }
            }
        }
        work(&self.root, level).filter(|value| value.is_finite())
    }
}

/// A recursive-descent parser: an expression is a sum of products of terms.
struct ExpressionParser<'a> {
    text: &'a str,
    depth: usize,
}

impl ExpressionParser<'_> {
    fn skip(&mut self) {
        self.text = self.text.trim_start();
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        self.skip();
        let next = self.text.chars().next().filter(|c| wanted.contains(c))?;
        self.text = &self.text[next.len_utf8()..];
        Some(next)
    }

    fn sum(&mut self) -> Result<ExpressionNode, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            left = ExpressionNode::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<ExpressionNode, String> {
        let mut left = self.term()?;
        while let Some(operator) = self.take(&['*', '/']) {
            left = ExpressionNode::Binary(operator, Box::new(left), Box::new(self.term()?));
        }
        Ok(left)
    }

    fn term(&mut self) -> Result<ExpressionNode, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("it is nested too deeply".into());
        }
        let node = if self.take(&['(']).is_some() {
            let inner = self.sum()?;
            self.take(&[')']).ok_or("a `)` is missing")?;
            inner
        } else {
            self.atom()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn atom(&mut self) -> Result<ExpressionNode, String> {
        self.skip();
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let end = |text: &str, of: &dyn Fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
        match self.text.chars().next() {
            Some(first) if first.is_ascii_digit() || first == '.' => {
                let (number, rest) =
                    self.text.split_at(end(self.text, &|c| c.is_ascii_digit() || c == '.' || c == 'e'));
                // A unit follows its number, with or without a space: `0.5 Mbit/s`. Here `/s` belongs to the unit.
                let after = rest.trim_start();
                let unit = end(after, &|c| is_name(c) || c == '%');
                let slash_s = after[unit..].strip_prefix("/s").is_some_and(|rest| !rest.starts_with(is_name));
                let per_second = if unit > 0 && slash_s { 2 } else { 0 };
                let (unit, rest) = after.split_at(unit + per_second);
                self.text = rest;
                let amount: Amount =
                    format!("{number} {unit}").parse().map_err(|e: crate::AmountError| e.to_string())?;
                Ok(ExpressionNode::Number(amount.base()))
            }
            Some(first) if is_name(first) => {
                let (name, rest) = self.text.split_at(end(self.text, &is_name));
                self.text = rest;
                Ok(ExpressionNode::Named(name.to_owned()))
            }
            Some(other) => Err(format!("expected a number or a factor, found `{other}`")),
            None => Err("it ends where a number or a factor is expected".into()),
        }
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let error = |why: String| ExpressionError { text: text.to_owned(), why };
        if text.len() > LONGEST {
            return Err(error(format!("it is longer than {LONGEST} bytes")));
        }
        let mut parser = ExpressionParser { text, depth: 0 };
        let root = parser.sum().map_err(error)?;
        parser.skip();
        if parser.text.is_empty() {
            Ok(Self { text: text.to_owned(), root })
        } else {
            Err(error(format!("nothing is expected before `{}`", parser.text)))
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

read_from_scalar!(Expression, expression, "a number, or a sum such as `1 / interarrival`", "Expression", {
    "type": ["string", "number"],
    "description": "A number, an amount, a factor, or a sum, difference, product or quotient of them \
                    in s, bit, bit/s and 1.",
    "examples": [10, "1 / interarrival", "0.5 Mbit/s / 8"]
});

fn expression<'de, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<Expression, D::Error> {
    let number = |value: f64| Expression { text: value.to_string(), root: ExpressionNode::Number(value) };
    written::scalar(deserializer, expected, |scalar| match scalar {
        Scalar::Text(text) => Some(text.parse()),
        other => other.number().map(|value| Ok(number(value))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let level = |name: &str| match name {
            "gap" => Some(0.25),
            "rate" => Some(500_000.0),
            "scale" => Some(4.0),
            _ => None,
        };
        text.parse::<Expression>().unwrap().value(&level)
    }

    #[test]
    fn works_sums_out() {
        assert_eq!(value("1 / gap"), Some(4.0));
        assert_eq!(value("rate/8/1500"), Some(500_000.0 / 8.0 / 1500.0));
        assert_eq!(value("2 + 3 * (4 - 1)"), Some(11.0));
        assert_eq!(value("8 - 2 - 1"), Some(5.0));
        assert_eq!(value("0.5 Mbit/s / 2"), Some(250_000.0));
        assert_eq!(value("200 ms"), Some(0.2));
        assert_eq!(value("10 KB"), Some(80_000.0));
        assert_eq!(value("2 B/scale"), Some(4.0));
    }

    #[test]
    fn what_has_no_value_has_none() {
        assert_eq!(value("1 / missing"), None);
        assert_eq!(value("1 / (gap - gap)"), None);
    }

    #[test]
    fn refuses_what_is_no_sum() {
        for wrong in ["", "1 +", "(1", "1 2", "* 2", "1 kB", ")"] {
            assert!(wrong.parse::<Expression>().is_err(), "{wrong}");
        }
        assert!("(".repeat(900).parse::<Expression>().is_err());
        assert!(format!("1{}", "/1".repeat(400_000)).parse::<Expression>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-+*/() 0-9a-zµ.%]{0,30}|.{0,30}") {
            let _ = text.parse::<Expression>();
            let _ = text.parse::<Amount>();
            let _ = text.parse::<crate::Of>();
            let _ = text.parse::<crate::Statistic>();
            let _ = crate::Paper::parse(&text);
        }
    }

    #[test]
    fn tells_its_names() {
        assert_eq!("8 * size / rate".parse::<Expression>().unwrap().names(), ["size", "rate"]);
    }
}

//! Values of variables.

use super::variables::{ScriptVariable, VariableId, VariableScope};

/// The value of a variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ScriptValue {
    /// The variable is not set.
    #[default]
    Unset,
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// The result of a test.
    Truth(bool),
}

impl ScriptValue {
    /// Whether the value counts as set. A false result of a test and the number 0 do not.
    pub const fn is_set(&self) -> bool {
        match self {
            Self::Unset => false,
            // As in SIPp, the number 0 counts as unset.
            Self::Number(number) => *number != 0.0,
            Self::Text(_) => true,
            Self::Truth(truth) => *truth,
        }
    }

    /// The value as written in messages.
    pub fn to_text(&self) -> String {
        match self {
            Self::Unset => String::new(),
            Self::Number(0.0) => String::new(),
            Self::Number(number) => format!("{number:.6}"),
            Self::Text(text) => text.clone(),
            Self::Truth(truth) => truth.to_string(),
        }
    }

    /// The value as a number; 0 if it is not one.
    pub fn to_number(&self) -> f64 {
        match self {
            Self::Unset => 0.0,
            Self::Number(number) => *number,
            Self::Text(text) => text.trim().parse().unwrap_or(0.0),
            Self::Truth(truth) => f64::from(u8::from(*truth)),
        }
    }
}

/// The values of variables by index: those of the call, of its user, and of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptValues(Vec<ScriptValue>);

impl ScriptValues {
    /// Values for this number of variables, all unset.
    pub fn new(variables: usize) -> Self {
        Self(vec![ScriptValue::Unset; variables])
    }

    /// The value of a variable.
    pub fn get(&self, variable: VariableId) -> &ScriptValue {
        self.0.get(variable.0).unwrap_or(&ScriptValue::Unset)
    }

    /// Sets a variable.
    pub fn set(&mut self, variable: VariableId, value: ScriptValue) {
        if let Some(place) = self.0.get_mut(variable.0) {
            *place = value;
        }
    }

    /// Copies the values of variables with one scope from `others`.
    pub fn take_scope<'a>(
        &mut self,
        others: &Self,
        variables: impl Iterator<Item = &'a ScriptVariable>,
        scope: VariableScope,
    ) {
        for (place, variable) in variables.enumerate() {
            if variable.scope == scope {
                self.set(VariableId(place), others.get(VariableId(place)).clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_words_and_numbers() {
        for (value, text, number, is_set) in [
            (ScriptValue::Unset, "", 0.0, false),
            (ScriptValue::Number(3.0), "3.000000", 3.0, true),
            (ScriptValue::Number(0.0), "", 0.0, false),
            (ScriptValue::Number(0.5), "0.500000", 0.5, true),
            (ScriptValue::Text("7 ".into()), "7 ", 7.0, true),
            (ScriptValue::Text("x".into()), "x", 0.0, true),
            (ScriptValue::Truth(false), "false", 0.0, false),
            (ScriptValue::Truth(true), "true", 1.0, true),
        ] {
            assert_eq!((value.to_text().as_str(), value.to_number(), value.is_set()), (text, number, is_set));
        }
    }
}

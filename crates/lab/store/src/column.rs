//! The columns of an exported table.

/// A column with its values.
pub(crate) struct Column {
    pub name: String,
    /// The unit of its numbers, if they have one.
    pub unit: Option<String>,
    pub values: ColumnValues,
}

/// One column's values; absent ones are null.
pub(crate) enum ColumnValues {
    Text(Vec<Option<String>>),
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
    Bool(Vec<bool>),
    Real(Vec<Option<f64>>),
}

impl Column {
    /// Numbers without a unit, or no numbers.
    pub fn new(name: impl Into<String>, values: ColumnValues) -> Self {
        Self { name: name.into(), unit: None, values }
    }

    /// Numbers in a unit, which also stands in the column's name: `throughput [B/s]`.
    pub fn in_unit(name: &str, unit: &str, values: ColumnValues) -> Self {
        Self { name: format!("{name} [{unit}]"), unit: Some(unit.to_owned()), values }
    }
}

impl ColumnValues {
    /// Whether a value may be absent.
    pub const fn is_nullable(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Real(_))
    }
}

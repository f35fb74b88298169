//! The columns of an exported table.

/// A column with its values.
pub(crate) struct Column {
    pub name: String,
    /// The unit of the numbers, if they have one.
    pub unit: Option<String>,
    pub values: ColumnValues,
}

/// The values of one column. An absent value is null.
pub(crate) enum ColumnValues {
    Text(Vec<Option<String>>),
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
    Bool(Vec<bool>),
    Real(Vec<Option<f64>>),
}

impl Column {
    /// A column of numbers without a unit, a column of texts or a column of Booleans.
    pub fn new(name: impl Into<String>, values: ColumnValues) -> Self {
        Self { name: name.into(), unit: None, values }
    }

    /// A column of numbers with a unit. The column's name includes the unit: `throughput [B/s]`.
    pub fn in_unit(name: &str, unit: &str, values: ColumnValues) -> Self {
        Self { name: format!("{name} [{unit}]"), unit: Some(unit.to_owned()), values }
    }
}

impl ColumnValues {
    /// Whether values of the column may be absent.
    pub const fn is_nullable(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Real(_))
    }
}

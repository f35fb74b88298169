//! Reads and writes whole columns of Parquet files, without the Arrow crates.

use std::io::Write;
use std::sync::Arc;

use netrig_core::Instant;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::column::{Column, ColumnValues};
use crate::{TimeSeries, arrow_schema};

/// A file that is written row group by row group.
pub(crate) struct ParquetWriter<W: Write + Send>(SerializedFileWriter<W>);

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file with these columns and with `about` as key-value pairs in its metadata. The values of the columns
    /// are ignored. If a column has a unit, the file has an Arrow schema with the unit as metadata of the column.
    pub fn new(output: W, columns: &[Column], about: &[(&str, &str)]) -> Result<Self> {
        let fields = columns.iter().map(|Column { name, values, .. }| values.field(name).map(Arc::new));
        let schema =
            Type::group_type_builder("schema").with_fields(fields.collect::<Result<_>>()?).build()?;
        let has_units = columns.iter().any(|column| column.unit.is_some());
        let schema_of_units = has_units.then(|| (arrow_schema::KEY, arrow_schema::encoded(columns)));
        let about = about.iter().map(|(key, value)| (*key, (*value).to_owned()));
        // They come after the long schema, because netrig looks for the coverage in the last bytes of a file.
        let about = schema_of_units.into_iter().chain(about);
        let about = about.map(|(key, value)| KeyValue::new(key.to_owned(), value));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(about.collect()))
            .build();
        Ok(Self(SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))?))
    }

    /// Writes the values of the columns as a row group.
    pub fn write(&mut self, columns: &[Column]) -> Result<()> {
        let mut group = self.0.next_row_group()?;
        for column in columns {
            column.values.write(&mut group)?;
        }
        group.close().map(drop)
    }

    /// Writes the end of the file.
    pub fn close(self) -> Result<()> {
        self.0.close().map(drop)
    }
}

impl ColumnValues {
    fn field(&self, name: &str) -> Result<Type> {
        let (physical, logical) = match self {
            Self::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Signed(_) => (Physical::INT64, None),
            Self::Unsigned(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Self::Bool(_) => (Physical::BOOLEAN, None),
            Self::Real(_) => (Physical::DOUBLE, None),
        };
        let repetition = if self.is_nullable() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, impl Write + Send>) -> Result<()> {
        match self {
            Self::Text(values) => {
                let present = values.iter().flatten().map(|v| ByteArray::from(v.as_str()));
                put::<ByteArrayType>(group, &present.collect::<Vec<_>>(), Some(&levels(values)))
            }
            Self::Signed(values) => put::<Int64Type>(group, values, None),
            // Parquet stores unsigned numbers as signed numbers with the same 64 bits.
            Self::Unsigned(values) => {
                put::<Int64Type>(group, &values.iter().map(|v| v.cast_signed()).collect::<Vec<_>>(), None)
            }
            Self::Bool(values) => put::<BoolType>(group, values, None),
            Self::Real(values) => put::<DoubleType>(
                group,
                &values.iter().flatten().copied().collect::<Vec<_>>(),
                Some(&levels(values)),
            ),
        }
    }
}

/// Definition levels of an optional column: 1 where there is a value, 0 where there is none.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|v| i16::from(v.is_some())).collect()
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// Encodes a time series as a complete file, so that other programs can read a blob from the store.
pub(crate) fn encode(series: &TimeSeries) -> Result<Vec<u8>> {
    let (at, values) = series.samples.iter().map(|(at, v)| (at.as_nanos().cast_signed(), Some(*v))).unzip();
    let columns =
        [Column::new("at_ns", ColumnValues::Signed(at)), Column::new("value", ColumnValues::Real(values))];
    let about = [("subject", &*series.subject), ("quantity", &*series.quantity), ("unit", &*series.unit)];
    let mut bytes = Vec::new();
    let mut file = ParquetWriter::new(&mut bytes, &columns, &about)?;
    file.write(&columns)?;
    file.close()?;
    Ok(bytes)
}

/// The samples of a file from [`encode`].
pub(crate) fn decode(bytes: Vec<u8>) -> Result<Vec<(Instant, f64)>> {
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
    let mut samples = Vec::new();
    for place in 0..file.num_row_groups() {
        let group = file.get_row_group(place)?;
        let at = take::<Int64Type>(group.as_ref(), 0)?;
        let values = take::<DoubleType>(group.as_ref(), 1)?;
        if at.len() != values.len() {
            return Err(ParquetError::General("its columns differ in length".to_owned()));
        }
        samples.extend(at.iter().map(|at| Instant::from_nanos(at.cast_unsigned())).zip(values));
    }
    Ok(samples)
}

fn take<T: DataType>(group: &dyn RowGroupReader, column: usize) -> Result<Vec<T::T>> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut values = Vec::new();
    let mut levels = Vec::new();
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column)?);
    while values.len() < rows {
        let (records, ..) = reader.read_records(rows - values.len(), Some(&mut levels), None, &mut values)?;
        if records == 0 {
            break;
        }
    }
    Ok(values)
}

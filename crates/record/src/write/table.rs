//! Encodes a table of flat rows as a Parquet file.

use crate::RunKey;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// The bytes of a Parquet file. Only a bug in Penstock can cause an error.
pub(super) type Encoded = Result<Vec<u8>, ParquetError>;

/// A column: its name, and the function for its value in a row.
pub(super) struct Column<R>(pub(super) &'static str, pub(super) Value<R>);

/// The function that returns a row's value, by the column's type. Counts are signed in the file, so that readers can
/// subtract them.
pub(super) enum Value<R> {
    Text(fn(&R) -> &str),
    MaybeText(fn(&R) -> Option<&str>),
    Count(fn(&R) -> u64),
    MaybeCount(fn(&R) -> Option<u64>),
    MaybeInteger(fn(&R) -> Option<i64>),
    Real(fn(&R) -> f64),
    MaybeReal(fn(&R) -> Option<f64>),
    Flag(fn(&R) -> bool),
}

impl<R> Value<R> {
    fn shape(&self) -> (Physical, Option<LogicalType>, Repetition) {
        let (physical, logical) = match self {
            Self::Text(_) | Self::MaybeText(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Count(_) | Self::MaybeCount(_) | Self::MaybeInteger(_) => (Physical::INT64, None),
            Self::Real(_) | Self::MaybeReal(_) => (Physical::DOUBLE, None),
            Self::Flag(_) => (Physical::BOOLEAN, None),
        };
        let optional = matches!(
            self,
            Self::MaybeText(_) | Self::MaybeCount(_) | Self::MaybeInteger(_) | Self::MaybeReal(_)
        );
        (physical, logical, if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED })
    }

    fn write(&self, rows: &[R], column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::Text(get) => required::<ByteArrayType, _>(rows, column, |row| ByteArray::from(get(row))),
            Self::MaybeText(get) => {
                optional::<ByteArrayType, _>(rows, column, |row| get(row).map(ByteArray::from))
            }
            Self::Count(get) => required::<Int64Type, _>(rows, column, |row| get(row) as i64),
            Self::MaybeCount(get) => {
                optional::<Int64Type, _>(rows, column, |row| get(row).map(|count| count as i64))
            }
            Self::MaybeInteger(get) => optional::<Int64Type, _>(rows, column, get),
            Self::Real(get) => required::<DoubleType, _>(rows, column, get),
            Self::MaybeReal(get) => optional::<DoubleType, _>(rows, column, get),
            Self::Flag(get) => required::<BoolType, _>(rows, column, get),
        }
    }
}

/// Rows in one row group. More rows compress better; fewer rows let readers skip more.
const ROWS_PER_GROUP: usize = 1 << 20;

pub(super) fn encode<R>(key: &RunKey, columns: &[Column<R>], rows: &[R]) -> Encoded {
    let mut file = SerializedFileWriter::new(Vec::new(), schema(columns)?, Arc::new(properties()))?;
    for rows in rows.chunks(ROWS_PER_GROUP) {
        let mut group = file.next_row_group()?;
        let variant = ByteArray::from(key.variant.as_str());
        let network = ByteArray::from(key.network.as_str());
        let mut next = |write: &dyn Fn(&mut SerializedColumnWriter<'_>) -> Result<(), ParquetError>| {
            let mut column = group.next_column()?.expect("the schema has a column for each that is written");
            write(&mut column)?;
            column.close()
        };
        next(&|column| required::<ByteArrayType, _>(rows, column, |_| variant.clone()))?;
        next(&|column| required::<ByteArrayType, _>(rows, column, |_| network.clone()))?;
        next(&|column| required::<Int64Type, _>(rows, column, |_| key.seed as i64))?;
        for Column(_, value) in columns {
            next(&|column| value.write(rows, column))?;
        }
        group.close()?;
    }
    file.into_inner()
}

pub(crate) fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("penstock ", env!("CARGO_PKG_VERSION")).to_owned())
        .build()
}

pub(super) fn schema<R>(columns: &[Column<R>]) -> Result<TypePtr, ParquetError> {
    let field = |name: &str, (physical, logical, repetition): (Physical, Option<LogicalType>, Repetition)| {
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        field.with_repetition(repetition).build().map(Arc::new)
    };
    let text = || (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED);
    let unsigned = LogicalType::integer(64, false);
    let mut fields = vec![
        field("variant", text())?,
        field("network", text())?,
        field("seed", (Physical::INT64, Some(unsigned), Repetition::REQUIRED))?,
    ];
    for Column(name, value) in columns {
        fields.push(field(name, value.shape())?);
    }
    Ok(Arc::new(Type::group_type_builder("penstock").with_fields(fields).build()?))
}

fn required<T: DataType, R>(
    rows: &[R],
    column: &mut SerializedColumnWriter<'_>,
    value: impl Fn(&R) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    column.typed::<T>().write_batch(&values, None, None).map(drop)
}

/// Writes a nullable column: the values that exist, and a flag for each row.
fn optional<T: DataType, R>(
    rows: &[R],
    column: &mut SerializedColumnWriter<'_>,
    value: impl Fn(&R) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let mut values = Vec::with_capacity(rows.len());
    let mut present = Vec::with_capacity(rows.len());
    for row in rows {
        let value = value(row);
        present.push(i16::from(value.is_some()));
        values.extend(value);
    }
    column.typed::<T>().write_batch(&values, Some(&present), None).map(drop)
}

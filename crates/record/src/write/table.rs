//! Rows, their columns, and their encoding as a Parquet file.

use crate::RunKey;
use parquet::basic::{Compression, LogicalType, Repetition};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// A row of a table.
pub(crate) trait Row: Sized {
    /// The file of the table.
    const FILE: &'static str;
    fn columns() -> Vec<Column<Self>>;
}

/// Declares the row type of a table. Each field is a column. Each method after `and` is also a column.
macro_rules! row {
    ($(#[$attribute:meta])* pub struct $name:ident($file:literal) {
        $($(#[$meaning:meta])+ $column:ident: $type:ty,)+
    } $(and { $($method:ident),+ })?) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$meaning])+ pub $column: $type,)+
        }

        impl $crate::write::Row for $name {
            const FILE: &'static str = $file;

            fn columns() -> Vec<$crate::write::Column<Self>> {
                vec![
                    $($crate::write::column(stringify!($column), |row: &Self| row.$column.clone()),)+
                    $($($crate::write::column(stringify!($method), Self::$method),)+)?
                ]
            }
        }
    };
}
pub(crate) use row;

/// Declares an enum. A column of a table contains each variant as a word.
macro_rules! words {
    ($(#[$attribute:meta])* pub enum $name:ident {
        $($(#[$meaning:meta])+ $variant:ident = $word:literal,)+
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$meaning])+ $variant,)+
        }

        impl $name {
            /// The variant's word in a column.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::write::Datum for $name {
            type Type = parquet::data_type::ByteArrayType;

            fn logical() -> Option<parquet::basic::LogicalType> {
                Some(parquet::basic::LogicalType::String)
            }
            fn encode(&self) -> Option<parquet::data_type::ByteArray> {
                Some(self.as_str().into())
            }
        }
    };
}
pub(crate) use words;

/// A type whose values a column can contain.
pub(crate) trait Datum {
    type Type: DataType;
    const IS_OPTIONAL: bool = false;
    fn logical() -> Option<LogicalType> {
        None
    }
    /// The value in the file; `None` becomes null.
    fn encode(&self) -> Option<<Self::Type as DataType>::T>;
}

impl Datum for Arc<str> {
    type Type = ByteArrayType;

    fn logical() -> Option<LogicalType> {
        Some(LogicalType::String)
    }
    fn encode(&self) -> Option<ByteArray> {
        Some((&**self).into())
    }
}

/// Counts are signed in the file, so that readers can subtract them.
impl Datum for u64 {
    type Type = Int64Type;

    fn encode(&self) -> Option<i64> {
        Some(*self as i64)
    }
}

impl Datum for i64 {
    type Type = Int64Type;

    fn encode(&self) -> Option<i64> {
        Some(*self)
    }
}

impl Datum for f64 {
    type Type = DoubleType;

    fn encode(&self) -> Option<f64> {
        Some(*self)
    }
}

impl Datum for bool {
    type Type = BoolType;

    fn encode(&self) -> Option<bool> {
        Some(*self)
    }
}

impl<D: Datum> Datum for Option<D> {
    type Type = D::Type;
    const IS_OPTIONAL: bool = true;

    fn logical() -> Option<LogicalType> {
        D::logical()
    }
    fn encode(&self) -> Option<<D::Type as DataType>::T> {
        self.as_ref()?.encode()
    }
}

/// The seed of a run.
#[derive(Clone, Copy)]
struct Seed(u64);

impl Datum for Seed {
    type Type = Int64Type;

    fn logical() -> Option<LogicalType> {
        Some(LogicalType::integer(64, false))
    }
    fn encode(&self) -> Option<i64> {
        Some(self.0 as i64)
    }
}

type Write<R> = dyn Fn(&[R], &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError>;

/// A column of a table with rows `R`.
pub(crate) struct Column<R> {
    field: TypePtr,
    write: Box<Write<R>>,
}

/// The column `name`. For each row, `value` returns the value in this column.
pub(crate) fn column<R, D: Datum>(name: &str, value: impl Fn(&R) -> D + 'static) -> Column<R> {
    let repetition = if D::IS_OPTIONAL { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let field = Type::primitive_type_builder(name, D::Type::get_physical_type());
    let field = field.with_logical_type(D::logical()).with_repetition(repetition).build();
    let write = move |rows: &[R], column: &mut SerializedColumnWriter<'_>| {
        let (mut values, mut present) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for row in rows {
            let value = value(row).encode();
            present.push(i16::from(value.is_some()));
            values.extend(value);
        }
        let levels = D::IS_OPTIONAL.then_some(&present[..]);
        column.typed::<D::Type>().write_batch(&values, levels, None).map(drop)
    };
    Column { field: Arc::new(field.expect("the types of columns are valid")), write: Box::new(write) }
}

/// The schema of a table: the three columns of the key, then the columns of the rows.
fn columns<R: Row>(key: &RunKey) -> Vec<Column<R>> {
    let [variant, network] = [&key.variant, &key.network].map(|name| Arc::<str>::from(name.as_str()));
    let seed = Seed(key.seed);
    let mut columns = vec![
        column("variant", move |_| variant.clone()),
        column("network", move |_| network.clone()),
        column("seed", move |_| seed),
    ];
    columns.extend(R::columns());
    columns
}

/// The columns of a table.
pub(super) fn schema<R: Row>() -> TypePtr {
    let fields = columns::<R>(&RunKey::new("", 0)).into_iter().map(|column| column.field).collect();
    let schema = Type::group_type_builder("penstock").with_fields(fields).build();
    Arc::new(schema.expect("the names of columns are different"))
}

/// The number of rows in one row group. Large groups compress better; small groups let readers skip more rows.
const ROWS_PER_GROUP: usize = 1 << 20;

/// Encodes rows as the bytes of a file. Each row begins with `key`. Only a bug in Penstock can cause an error.
pub(super) fn encode<R: Row>(key: &RunKey, rows: &[R]) -> Result<Vec<u8>, ParquetError> {
    let mut file = SerializedFileWriter::new(Vec::new(), schema::<R>(), Arc::new(properties()))?;
    for rows in rows.chunks(ROWS_PER_GROUP) {
        let mut group = file.next_row_group()?;
        for column in columns::<R>(key) {
            let mut next = group.next_column()?.expect("the schema has a column for each that is written");
            (column.write)(rows, &mut next)?;
            next.close()?;
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

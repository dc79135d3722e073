//! Merges the tables of many runs without decoding them.
//!
//! A merged file contains the row groups of its parts, one after the other, with unchanged compressed pages. A merge
//! therefore takes as long as copying the files, and needs no memory for rows. The same parts give the same bytes.

use crate::Error;
use crate::write::{TABLES, properties};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Merges tables of many runs into five tables in the existing directory `dir`. Each directory in `parts` contains five
/// tables from [`Tables::write`](crate::Tables::write); their order is kept. A merged table gets its final name only
/// when it is complete.
pub fn merge(parts: &[PathBuf], dir: &Path) -> Result<(), Error> {
    TABLES.iter().try_for_each(|(table, schema)| {
        let unfinished = dir.join(format!("{table}.tmp"));
        let merged = merge_one(table, schema(), parts, &unfinished);
        if merged.is_err() {
            // Only the first error is reported, so an error of this call is ignored.
            let _ = std::fs::remove_file(&unfinished);
        }
        merged?;
        std::fs::rename(&unfinished, dir.join(table)).map_err(|error| Error::io(&unfinished, error))
    })
}

fn merge_one(table: &str, schema: TypePtr, parts: &[PathBuf], target: &Path) -> Result<(), Error> {
    let file = File::create(target).map_err(|error| Error::io(target, error))?;
    let failed = |error| Error::parquet(target, error);
    let output = Named { file: &file, path: target };
    let mut writer = SerializedFileWriter::new(output, schema, Arc::new(properties())).map_err(failed)?;
    for part in parts {
        append(&part.join(table), &mut writer)?;
    }
    writer.close().map_err(failed)?;
    file.sync_data().map_err(|error| Error::io(target, error))
}

fn append(path: &Path, writer: &mut SerializedFileWriter<Named<'_>>) -> Result<(), Error> {
    let failed = |error| Error::parquet(path, error);
    let part = File::open(path).map_err(|error| Error::io(path, error))?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&part).map_err(failed)?;
    if metadata.file_metadata().schema() != writer.schema_descr().root_schema() {
        return Err(Error::Columns { path: path.to_owned() });
    }
    for group in metadata.row_groups() {
        let mut copy = writer.next_row_group().map_err(failed)?;
        for column in group.columns() {
            let close = ColumnCloseResult {
                bytes_written: column.compressed_size() as u64,
                rows_written: group.num_rows() as u64,
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copy.append_column(&part, close).map_err(failed)?;
        }
        copy.close().map_err(failed)?;
    }
    Ok(())
}

/// An output file. It adds the path to errors, because the Parquet library returns errors without a path.
struct Named<'a> {
    file: &'a File,
    path: &'a Path,
}

impl Write for Named<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| self.named(error))
    }
}

impl Named<'_> {
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), Error::io(self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::tests::{Scratch, one_row_each, rows};
    use crate::{RunKey, Tables};

    /// Two parts, of which the second has fewer rows, and an empty directory for the merged tables.
    fn two_parts(test: &str) -> (Scratch, Vec<PathBuf>, PathBuf) {
        let scratch = Scratch::new(test);
        let [a, b, merged] = ["a", "b", "merged"].map(|name| scratch.0.join(name));
        for dir in [&a, &b, &merged] {
            std::fs::create_dir_all(dir).expect("a directory for the test");
        }
        one_row_each().write(&a, &RunKey::new("stock", 1)).expect("there is space");
        Tables { transfers: one_row_each().transfers, ..Tables::default() }
            .write(&b, &RunKey::new("small", 2))
            .expect("there is space");
        (scratch, vec![a, b], merged)
    }

    #[test]
    fn a_merged_table_has_the_rows_of_its_parts_in_their_order() {
        let (_scratch, parts, merged) = two_parts("merge");
        merge(&parts, &merged).expect("the parts are complete");
        for (table, _) in TABLES {
            let of_parts: Vec<String> = parts.iter().flat_map(|part| rows(part, table)).collect();
            assert_eq!(rows(&merged, table), of_parts, "{table}");
            assert!(!merged.join(format!("{table}.tmp")).exists());
        }
        assert_eq!(rows(&merged, "transfers.parquet").len(), 2);
    }

    #[test]
    fn merging_no_parts_gives_empty_tables() {
        let (_scratch, _, merged) = two_parts("merge-nothing");
        merge(&[], &merged).expect("there is space");
        assert!(rows(&merged, "cells.parquet").is_empty());
    }

    #[test]
    fn a_part_with_other_columns_is_named() {
        let (_scratch, parts, merged) = two_parts("merge-other");
        let other = parts[1].join("cells.parquet");
        std::fs::copy(parts[1].join("paths.parquet"), &other).expect("there is space");
        let error = merge(&parts, &merged).expect_err("one table has other columns");
        assert_eq!(
            error.to_string(),
            format!("{}: it has other columns than this version writes", other.display())
        );
    }

    #[test]
    fn a_damaged_part_is_named() {
        let (_scratch, parts, merged) = two_parts("merge-damaged");
        let damaged = parts[1].join("paths.parquet");
        std::fs::write(&damaged, "no table").expect("there is space");
        let error = merge(&parts, &merged).expect_err("the part is damaged");
        assert!(error.to_string().starts_with(&damaged.display().to_string()), "{error}");
        assert!(!merged.join("paths.parquet.tmp").exists());
    }
}

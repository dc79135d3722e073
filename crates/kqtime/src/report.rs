//! The measured waits: a line of CSV for each, and a summary.

use crate::mark::{Connection, Direction};
use crate::matching::Wait;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Counts of waits and packets that are not in the table [1].
#[derive(Clone, Copy, Debug, Default)]
pub struct Missing {
    /// Reports of bytes that had not left when the program ended.
    pub unfinished: u64,
    /// Other reports whose bytes were in no packet.
    pub unmatched: u64,
    /// Packets that found no space in the packet socket.
    pub dropped: u64,
}

/// Waits of one program.
#[derive(Debug)]
pub struct Report<W> {
    out: Option<W>,
    begin: u64,
    /// A number instead of the addresses.
    numbers: BTreeMap<Connection, usize>,
    waits: BTreeMap<Direction, Vec<u64>>,
}

impl<W: Write> Report<W> {
    /// A report whose times count from `begin`, real time since 1970 [ns].
    ///
    /// # Errors
    ///
    /// If the head of the table cannot be written.
    pub fn new(mut out: Option<W>, begin: u64) -> io::Result<Self> {
        if let Some(out) = &mut out {
            writeln!(out, "time_ns,connection,direction,wait_ns,queue_bytes")?;
        }
        Ok(Self { out, begin, numbers: BTreeMap::new(), waits: BTreeMap::new() })
    }

    /// Adds a wait.
    ///
    /// # Errors
    ///
    /// If the line cannot be written.
    pub fn add(&mut self, wait: &Wait) -> io::Result<()> {
        let next = self.numbers.len();
        let number = *self.numbers.entry(wait.mark.connection).or_insert(next);
        let direction = wait.mark.direction;
        self.waits.entry(direction).or_default().push(wait.wait);
        let Some(out) = &mut self.out else { return Ok(()) };
        let time = wait.mark.time.saturating_sub(self.begin);
        writeln!(out, "{time},{number},{},{},{}", direction.name(), wait.wait, wait.mark.queue)
    }

    /// The summary, and the table is complete.
    ///
    /// # Errors
    ///
    /// If the table cannot be written.
    pub fn finish(mut self, missing: &Missing) -> io::Result<String> {
        if let Some(out) = &mut self.out {
            out.flush()?;
        }
        let mut text = String::from("direction   waits      50 %      90 %      99 %    longest\n");
        for (direction, waits) in &mut self.waits {
            waits.sort_unstable();
            let at = |share: f64| waits[((waits.len() - 1) as f64 * share).round() as usize] as f64 / 1e6;
            let [median, high, highest, longest] = [0.5, 0.9, 0.99, 1.0].map(at);
            let (name, count) = (direction.name(), waits.len());
            let _ = writeln!(
                text,
                "{name:9} {count:7} {median:6.3} ms {high:6.3} ms {highest:6.3} ms {longest:7.3} ms"
            );
        }
        let Missing { unfinished, unmatched, dropped } = missing;
        let _ = writeln!(
            text,
            "{} connections; {unfinished} waits longer than the program, {unmatched} reports without a packet, {dropped} \
             packets not captured",
            self.numbers.len()
        );
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::Mark;

    #[test]
    fn the_table_has_numbers_instead_of_addresses() {
        let mut out = Vec::new();
        let mut report = Report::new(Some(&mut out), 1000).unwrap();
        for (port, wait) in [(7, 10), (8, 20), (7, 30)] {
            let connection =
                Connection { local: "1.2.3.4:9001".parse().unwrap(), remote: ([5, 6, 7, 8], port).into() };
            let mark = Mark { direction: Direction::Out, connection, time: 1500, queue: 3, tag: [0; 16] };
            report.add(&Wait { mark, wait }).unwrap();
        }
        let summary = report.finish(&Missing { unmatched: 4, ..Missing::default() }).unwrap();
        let table = "time_ns,connection,direction,wait_ns,queue_bytes\n500,0,out,10,3\n500,1,out,20,3\n500,0,out,30,3\n";
        assert_eq!(String::from_utf8(out).unwrap(), table);
        assert!(
            summary.contains("2 connections; 0 waits longer than the program, 4 reports without a packet, 0"),
            "{summary}"
        );
    }
}

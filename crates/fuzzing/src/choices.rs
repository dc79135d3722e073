//! A fuzzer's bytes as choices: what is left out is zero, so that every input says something.

/// What of an input has not been used yet.
#[derive(Clone, Debug)]
pub(super) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Choices(input)
    }

    /// Whether there is nothing left to choose by.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Less than `end`, which is not zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let number = if end <= 256 { self.byte().into() } else { usize::from(self.u16()) };
        number % end
    }

    /// One of these; nothing if there is none.
    pub(super) fn of<'t, T>(&mut self, list: &'t [T]) -> Option<&'t T> {
        if list.is_empty() { None } else { list.get(self.below(list.len())) }
    }

    /// At most so many bytes, as they are: one says how many.
    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }
}

//! Reads a fuzzer's input as a sequence of choices. Missing bytes are zero, so every input is valid.

#[derive(Clone, Debug)]
pub(super) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Choices(input)
    }

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

    /// A number that is at least 0 and less than `end`. `end` is at least 1.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let number = if end <= 256 { self.byte().into() } else { usize::from(self.u16()) };
        number % end
    }

    pub(super) fn of<'t, T>(&mut self, list: &'t [T]) -> Option<&'t T> {
        if list.is_empty() { None } else { list.get(self.below(list.len())) }
    }

    /// All bytes that are left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Up to `most` bytes of the input. The byte before them is their number.
    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }
}

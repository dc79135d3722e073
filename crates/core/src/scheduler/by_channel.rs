use crate::keys::ChannelKey;

/// A table with one value for each channel. The initial value is the type's default.
#[derive(Debug, Default)]
pub(super) struct ByChannel<T>(Vec<T>);

impl<T: Default> ByChannel<T> {
    pub(super) fn at(&mut self, channel: ChannelKey) -> &mut T {
        let index = channel.index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, T::default);
        }
        &mut self.0[index]
    }

    pub(super) fn forget(&mut self, channel: ChannelKey) {
        if let Some(value) = self.0.get_mut(channel.index()) {
            *value = T::default();
        }
    }
}

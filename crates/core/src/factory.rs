//! How an algorithm from outside is built.

use std::fmt;
use std::sync::Arc;

/// Builds a `T` whenever one is needed, with whatever parameters it was made with.
///
/// ```
/// use penstock_core::Factory;
/// use penstock_core::throttle::{NoThrottle, Throttle};
///
/// let factory = Factory::<dyn Throttle>::new(|| Box::new(NoThrottle));
/// let throttle = factory.build();
/// ```
pub struct Factory<T: ?Sized>(Arc<dyn Fn() -> Box<T> + Send + Sync>);

impl<T: ?Sized> Factory<T> {
    /// From a closure, which keeps the parameters.
    pub fn new(build: impl Fn() -> Box<T> + Send + Sync + 'static) -> Self {
        Factory(Arc::new(build))
    }

    /// One more.
    pub fn build(&self) -> Box<T> {
        (self.0)()
    }
}

impl<T: ?Sized> Clone for Factory<T> {
    fn clone(&self) -> Self {
        Factory(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> fmt::Debug for Factory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory(..)")
    }
}

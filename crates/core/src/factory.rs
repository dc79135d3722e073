use std::fmt;
use std::sync::Arc;

/// Builds instances of an algorithm from outside this workspace. The closure contains the algorithm's parameters.
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
    /// A factory that calls this closure.
    pub fn new(build: impl Fn() -> Box<T> + Send + Sync + 'static) -> Self {
        Factory(Arc::new(build))
    }

    /// Builds a new instance.
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

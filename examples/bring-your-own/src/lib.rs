//! Two algorithms from outside of Penstock, which `penstock build --with` links.

mod least_sent;
mod short_queues;

use least_sent::LeastSent;
use penstock_core::Factory;
use penstock_core::circuit_policy::{CircuitPolicy, CircuitPolicyConfig};
use penstock_core::scheduler::{Scheduler, SchedulerConfig};
use penstock_scenario::plugin::{Plugin, Plugins};
use short_queues::ShortQueues;

/// Gives the algorithms their names in scenario files, and declares their parameters.
pub fn register(plugins: &mut Plugins) {
    plugins.add(Plugin::new("least-sent", "The circuit that has sent the fewest cells so far goes first.", |_| {
        // Each channel of a relay gets its own policy from the factory.
        let factory = Factory::<dyn CircuitPolicy>::new(|| Box::new(LeastSent::default()));
        Ok(CircuitPolicyConfig::Custom(factory))
    }));
    plugins.add(
        Plugin::new("short-queues", "The relay keeps few bytes of each channel in the kernel.", |parameters| {
            let most = parameters.size("most");
            // Each relay gets its own scheduler from the factory. The closure keeps the parameter.
            let factory = Factory::<dyn Scheduler>::new(move || Box::new(ShortQueues::new(most)));
            Ok(SchedulerConfig::Custom(factory))
        })
        .size("most", "8 KiB", "The maximum number of bytes of a channel in the kernel, sent or unsent."),
    );
}

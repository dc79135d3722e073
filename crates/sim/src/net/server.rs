//! Servers: they read requests, and send responses or follow a Markov model.

use super::Net;
use super::event::Timer;
use super::packet::SockRef;
use super::socket::{Item, Owner};
use crate::cell::RequestKind;
use crate::script::Script;
use crate::tcp::{Endpoint, TcpConfig};
use penstock_scenario::markov::Observation;
use penstock_scenario::model::{Activity, Tgen, Workload};
use penstock_units::{Duration, fifo::take_first};

impl Net<'_> {
    pub(super) fn serve_requests(&mut self, sock: SockRef) {
        let now = self.now();
        let host = &mut self.hosts[sock.host as usize];
        let (tcp, here) = (&host.tcp, &mut host.socks[sock.slot as usize]);
        let Owner::Server(mut left) = here.owner else { return };
        let mut thinks_until = None;
        let readable = here.tcp.readable();
        if readable > 0 {
            here.tcp.read(tcp, now, readable);
        }
        let mut requested = false;
        while let Some((end, Item::Request(request))) = here.messages.front().copied()
            && end <= here.tcp.received_end()
        {
            take_first(&mut here.messages);
            requested = true;
            match request.kind() {
                RequestKind::Bytes(bytes) => {
                    left += bytes;
                    let think = host.think.as_mut();
                    let think_time = think.map_or(Duration::ZERO, |(span, rng)| span.draw(rng));
                    if !think_time.is_zero() {
                        here.cold_mut().thinks = true;
                        thinks_until = Some(now + think_time);
                    }
                }
                RequestKind::Script { workload, seed } => {
                    let model = self.models[workload]
                        .as_ref()
                        .expect("a request for a script names a workload with a model");
                    here.cold_mut().script = Some(Script::new(model, seed, Observation::ToOrigin));
                }
            }
        }
        let thinks = here.cold().is_some_and(|cold| cold.thinks);
        let mut paused_until = thinks_until;
        if here.tcp.receive_closed() && here.cold().is_some_and(|cold| cold.script.take().is_some()) {
            left = 0;
        } else if let Some(script) = here.cold.as_mut().and_then(|cold| cold.script.as_mut()) {
            if left == 0 || here.tcp.is_writable(tcp) {
                paused_until = run_server_script(script, &mut here.tcp, tcp, &mut host.writes, &mut left)
                    .map(|pause| now + pause);
            }
        } else if !thinks && (requested || (left > 0 && here.tcp.is_writable(tcp))) {
            let bytes = left.min(here.tcp.write_space());
            host.writes += 1;
            here.tcp.write(tcp, host.writes, bytes);
            left -= bytes;
            if left == 0 {
                // Without keep-alive, the server closes the connection at the end of the response.
                here.tcp.shutdown();
            }
        }
        here.owner = Owner::Server(left);
        let done = here.tcp.receive_closed() && left == 0;
        if done {
            here.tcp.shutdown();
            here.owner = Owner::Closed;
        }
        let generation = here.generation;
        self.pump(sock);
        if let Some(until) = paused_until {
            self.set_timer(sock.host, until, Timer::ServerScript(sock.slot, generation));
        }
        if done {
            self.mark_closed(sock);
        }
    }

    pub(crate) fn on_server_script_timer(&mut self, sock: SockRef, generation: u32) {
        let here = self.hosts[sock.host as usize].sock_of(sock.slot, generation);
        let Some(here) = here else { return };
        match here.script() {
            Some(script) => script.paused = false,
            None => here.cold_mut().thinks = false,
        }
        self.serve_requests(sock);
    }
}

/// Runs a server's script until the send buffer is full or the script pauses. Returns the length of the pause. `left`
/// counts the bytes of the script that did not fit into the buffer [B].
fn run_server_script(
    script: &mut Script,
    endpoint: &mut Endpoint,
    tcp: &TcpConfig,
    writes: &mut u64,
    left: &mut u64,
) -> Option<Duration> {
    let mut pause = None;
    loop {
        let bytes = (*left).min(endpoint.write_space());
        if bytes > 0 {
            *writes += 1;
            endpoint.write(tcp, *writes, bytes);
            *left -= bytes;
        }
        if *left > 0 || script.ended || script.paused {
            return pause;
        }
        let burst = script.next_burst();
        *left += burst.bytes;
        pause = burst.pause;
    }
}

pub(super) fn model_of(workload: &Workload) -> Option<Tgen> {
    match &workload.does {
        Activity::Tgen(tgen) => Some(tgen.clone()),
        _ => None,
    }
}

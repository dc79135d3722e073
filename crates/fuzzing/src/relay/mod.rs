//! Target `relay`: the relay core between hostile clients and hostile relays, which have the keys of their circuits.

mod client;
mod host;
mod settings;
mod world;

use super::choices::Choices;
use client::{Circuit, body, cell};
use penstock_core::{ChannelKey, CircId, DestroyReason, EndReason, Parameters, PeerId, StreamKey};
use penstock_link::cell::command;
use penstock_units::Duration;
use world::{HONEST, World, id};

pub use world::Reached;

/// Maximum number of steps in an input [1].
const MAX_STEPS: u32 = 200;

/// Runs a relay with arbitrary settings. Peers, servers and operators act arbitrarily, and time passes. Two honest
/// clients download at the same time. One has its own link. The other shares a link with other circuits.
///
/// # Panics
///
/// If a cell is lost, a limit is exceeded, the relay never becomes idle, an undisturbed circuit or channel is closed,
/// or an honest client does not receive its download. With a memory limit, circuits may be closed.
pub fn relay(input: &[u8]) -> Reached {
    let mut choices = Choices::new(input);
    let kind = choices.byte();
    let config = settings::relay(&mut choices, kind & 128 != 0);
    let mut world = World::new(config, kind & 1 != 0);
    for _ in 0..MAX_STEPS {
        if choices.is_over() {
            break;
        }
        step(&mut world, &mut choices);
        world.settle();
        world.check();
    }
    world.finish();
    world.close()
}

fn step(world: &mut World, choices: &mut Choices<'_>) {
    match choices.byte() % 32 {
        0 => open_link(world, choices),
        1 | 2 => create(world, choices),
        3..=10 => send(world, choices),
        11 | 12 => any_cell(world, choices),
        13 | 14 => answer_back(world, choices),
        15 => garbage(world, choices),
        16 | 17 => serve(world, choices),
        18 => end_stream(world, choices),
        19 => drop(world.answer_one(choices.flag())),
        20 => drop(world.connect_one(Some(choices))),
        21 => connect_stream(world, choices),
        22 => world.lazy = choices.flag(),
        23 => stop_reading(world, choices),
        24 => set_send_buffer(world, choices),
        25..=27 => world.now += Duration::from_micros(1 << (choices.byte() % 28)),
        28 => world.relay.on_timer(world.now, &mut world.host),
        29 => operate(world, choices),
        30 => close_circuit(world, choices),
        _ => lose_link(world, choices),
    }
}

/// A link that the input may disturb.
fn link(world: &World, choices: &mut Choices<'_>) -> usize {
    let quiet = world.circuits[1].channel;
    let free: Vec<usize> = (0..world.links.len()).filter(|at| world.links[*at].key != quiet).collect();
    choices.of(&free).copied().unwrap_or(usize::MAX)
}

fn key(world: &World, choices: &mut Choices<'_>) -> Option<ChannelKey> {
    world.links.get(link(world, choices)).map(|link| link.key)
}

fn open_link(world: &mut World, choices: &mut Choices<'_>) {
    if world.links.len() < 6 {
        let kind = choices.byte();
        let peer = PeerId(if kind & 1 == 0 { 10 } else { 100 } + u32::from(kind >> 2 & 1));
        let offer = world.offer(choices);
        world.accept(peer, kind & 1 == 0, offer);
    }
}

fn create(world: &mut World, choices: &mut Choices<'_>) {
    let kind = choices.byte();
    let Some(channel) = key(world, choices) else { return };
    let number = u32::from(choices.byte() % 12);
    // One of the ids has the wrong first bit.
    let ours = world.links.iter().any(|link| link.key == channel && link.ours);
    let id = id(number, (number != 11) != ours);
    let known =
        world.circuits.iter().any(|circuit| (circuit.channel, circuit.id) == (channel, id) && !circuit.over);
    let (circuit, create) =
        Circuit::begin(channel, id, if kind & 3 == 3 { 0 } else { kind & 3 }, kind & 4 != 0);
    // A circuit id in use stays with its circuit.
    if !known && world.circuits.len() < 40 {
        world.circuits.push(circuit);
    }
    world.give(channel, &create);
}

fn send(world: &mut World, choices: &mut Choices<'_>) {
    let Some(at) = choices.of(&world.others()).copied() else { return };
    let (kind, stream) = (choices.byte(), u16::from(choices.byte() % 8));
    let channel = world.circuits[at].channel;
    let early = kind & 128 != 0;
    let taken = |world: &World| !world.circuits[at].over;
    let (number, data): (u8, Vec<u8>) = match kind % 24 {
        0..=3 => (1, target(choices)),
        4..=7 => (2, vec![kind; [0, 1, 100, 483, 498][choices.below(5)]]),
        8 => (3, choices.bytes(40).to_vec()),
        9 => (4, choices.bytes(40).to_vec()),
        10..=12 => {
            let cell = world.circuits[at].acknowledge();
            world.give(channel, &cell);
            world.settle();
            world.reached.sendmes += u32::from(!cell.is_empty() && taken(world));
            return;
        }
        13 => (5, choices.bytes(30).to_vec()),
        14 => (14, extend(choices)),
        15 => (8, Vec::new()),
        16 => (10, Vec::new()),
        17 => (11, choices.bytes(255).to_vec()),
        18 => (13, Vec::new()),
        19 => (43, choices.bytes(2).to_vec()),
        20 => (44, choices.bytes(6).to_vec()),
        21 => linking(choices),
        _ => (choices.byte(), choices.bytes(255).to_vec()),
    };
    let early = early || number == 14 && kind & 64 == 0;
    let mut body = body(number, if matches!(number, 8 | 14 | 19..=22) { stream & 4 } else { stream }, &data);
    if kind & 32 != 0 && kind % 24 > 20 {
        let length = choices.u16().to_be_bytes();
        body[9..11].copy_from_slice(&length);
    }
    for _ in 0..times(choices) {
        let cell = world.circuits[at].send(early, &body);
        world.give(channel, &cell);
    }
}

/// A message that links circuits. All sets have one of two nonces.
fn linking(choices: &mut Choices<'_>) -> (u8, Vec<u8>) {
    let what = choices.byte();
    match what % 4 {
        0 => (21, Vec::new()),
        1 => (22, u32::from(choices.byte()).to_be_bytes().to_vec()),
        _ => {
            let [sent, received] = [what & 64, what & 128].map(|flag| u64::from(flag != 0 && choices.flag()));
            let numbers = [sent.to_be_bytes(), received.to_be_bytes()].concat();
            let link = [&[1][..], &[what & 8; 32], &numbers, &[choices.byte() % 6]].concat();
            (if what & 48 == 48 { 20 } else { 19 }, link)
        }
    }
}

fn times(choices: &mut Choices<'_>) -> u32 {
    match choices.byte() {
        many @ 192.. => u32::from(many - 191) * 8,
        _ => 1,
    }
}

fn target(choices: &mut Choices<'_>) -> Vec<u8> {
    let list: [&[u8]; 6] =
        [b"192.0.2.1:80\0", b"example.com:443\0\0\0\0\x07", b"[2001:db8::1]:22\0", b":0\0", b"a:1", b"\0"];
    match choices.of(&list) {
        Some(target) if choices.flag() => target.to_vec(),
        Some(_) => b"192.0.2.1:80\0".to_vec(),
        None => Vec::new(),
    }
}

fn extend(choices: &mut Choices<'_>) -> Vec<u8> {
    let target_relay = choices.byte();
    let mut data = vec![3, 0, 6, 192, 0, 2, 1, 0, 80, 2, 20];
    data.extend_from_slice(&[target_relay % 4; 20]);
    data.extend_from_slice(&[3, 32]);
    data.extend_from_slice(&[9; 32]);
    let len = u16::from(choices.byte());
    data.extend_from_slice(&[0, [2, 3, 0, 9][usize::from(target_relay >> 6)]]);
    data.extend_from_slice(&len.to_be_bytes());
    data.resize(data.len() + usize::from(len), 5);
    if target_relay & 32 != 0 && !data.is_empty() {
        let place = usize::from(choices.u16()) % data.len();
        data[place] ^= choices.byte();
    }
    data
}

/// Sends a cell with any command, on any circuit except those of honest clients.
fn any_cell(world: &mut World, choices: &mut Choices<'_>) {
    let Some(channel) = key(world, choices) else { return };
    let which = choices.byte();
    let known = world.ids_on(channel);
    let known: Vec<CircId> = known.into_iter().filter(|(_, honest)| !honest).map(|(id, _)| id).collect();
    let id = match choices.of(&known) {
        Some(known) if which & 1 == 0 => *known,
        _ => id(u32::from(which >> 1) % 20 + 1, which & 128 == 0),
    };
    let commands = [
        command::RELAY,
        command::RELAY_EARLY,
        command::DESTROY,
        command::CREATE2,
        command::CREATE,
        command::CREATE_FAST,
        command::CREATED2,
        command::CREATED_FAST,
        command::PADDING,
        command::PADDING_NEGOTIATE,
        command::NETINFO,
        100,
        101,
    ];
    let Some(command) = choices.of(&commands).copied() else { return };
    let data = choices.bytes(64).to_vec();
    for _ in 0..times(choices) {
        world.give(channel, &cell(id, command, &data));
    }
}

/// Sends cells as the next relay of an extended circuit.
fn answer_back(world: &mut World, choices: &mut Choices<'_>) {
    let extended: Vec<(ChannelKey, CircId)> =
        world.links.iter().flat_map(|link| link.ids.iter().map(|id| (link.key, *id))).collect();
    let Some((channel, id)) = choices.of(&extended).copied() else { return };
    let (command, data) = match choices.byte() % 8 {
        0..=2 => {
            let len = usize::from(choices.u16()) % 560;
            let mut data = (len as u16).to_be_bytes().to_vec();
            data.resize(2 + len, 7);
            (command::CREATED2, data)
        }
        3 | 4 => (command::RELAY, vec![choices.byte(); 509]),
        5 => (command::DESTROY, vec![choices.byte()]),
        6 => (100, choices.bytes(9).to_vec()),
        _ => (choices.byte() & 127, choices.bytes(64).to_vec()),
    };
    // VERSIONS has a length field.
    if !command::is_variable(command) {
        for _ in 0..times(choices) {
            world.give(channel, &cell(id, command, &data));
        }
    }
}

/// Sends arbitrary bytes on links without honest clients.
fn garbage(world: &mut World, choices: &mut Choices<'_>) {
    let shared = world.circuits[0].channel;
    if let Some(channel) = key(world, choices).filter(|channel| *channel != shared) {
        let bytes = choices.bytes(255).to_vec();
        world.give(channel, &bytes);
    }
}

fn stream(world: &World, choices: &mut Choices<'_>) -> Option<StreamKey> {
    choices.of(&world.streams).copied()
}

fn serve(world: &mut World, choices: &mut Choices<'_>) {
    let Some(stream) = stream(world, choices) else { return };
    let (what, amount) = (choices.byte(), u64::from(choices.byte()));
    let Some(server) = world.host.servers.get_mut(&stream) else { return };
    match what % 8 {
        0..=3 => server.left += amount * 498,
        4..=6 => server.appetite += amount * 498,
        _ => server.closes = true,
    }
}

fn end_stream(world: &mut World, choices: &mut Choices<'_>) {
    if let Some(stream) = stream(world, choices) {
        world.relay.close_stream(world.now, stream, EndReason(choices.byte()), &mut world.host);
    }
}

fn connect_stream(world: &mut World, choices: &mut Choices<'_>) {
    if let Some(stream) = stream(world, choices).filter(|stream| !world.is_connected(*stream)) {
        world.connect_stream(stream);
    }
}

fn stop_reading(world: &mut World, choices: &mut Choices<'_>) {
    let at = link(world, choices);
    if let Some(link) = world.links.get_mut(at) {
        link.reads = !link.reads;
        link.stopped_reading |= !link.reads;
    }
}

fn set_send_buffer(world: &mut World, choices: &mut Choices<'_>) {
    let (channel, capacity) = (key(world, choices), choices.below(80));
    if let Some(pipe) = channel.and_then(|channel| world.host.pipes.get_mut(&channel)) {
        pipe.send_capacity = capacity;
        // A peer without buffer space counts as a peer that does not read.
        if let Some(link) = world.links.iter_mut().find(|link| Some(link.key) == channel) {
            link.stopped_reading |= capacity == 0;
        }
    }
}

fn parameters(what: u8) -> Parameters {
    Parameters {
        half_life: Some(Duration::from_millis(u64::from(what) * 10 + 1)),
        run_interval: Some(Duration::from_millis(2 + u64::from(what & 31))),
        circuit_window: Some(u32::from(what) * 5),
        grants_vegas: Some(what & 4 != 0),
        sendme_inc: None,
        // The peers of this target keep to the first offer.
        n23: None,
        conflux: Some(what & 8 != 0),
        conflux_legs: None,
    }
}

fn operate(world: &mut World, choices: &mut Choices<'_>) {
    let what = choices.byte();
    match what & 3 {
        0 => world.throttle(what >> 2 & 7),
        1 => world.relay.apply_parameters(world.now, parameters(what)),
        2 => world.relay.set_circuit_policy(world.now, settings::policy(what >> 2)),
        _ => {
            let at = link(world, choices);
            let quiet = world.circuits[0].channel;
            if let Some(key) = world.links.get(at).map(|link| link.key).filter(|key| *key != quiet) {
                world.relay.close_channel(world.now, key, &mut world.host);
            }
        }
    }
}

fn close_circuit(world: &mut World, choices: &mut Choices<'_>) {
    let Some(at) = choices.of(&world.others()).copied() else { return };
    let circuit = &world.circuits[at];
    if circuit.id != id(HONEST, true)
        && let Some(index) = world.relay.circuit_on(circuit.channel, circuit.id)
    {
        let reason = DestroyReason(choices.byte());
        world.relay.close_circuit(world.now, index, reason, &mut world.host);
    }
}

fn lose_link(world: &mut World, choices: &mut Choices<'_>) {
    // In rare cases, this is the link of an honest client.
    let shared = world.circuits[0].channel;
    let (channel, really) = (key(world, choices), choices.byte() == 255);
    if let Some(channel) = channel.filter(|channel| really || *channel != shared) {
        world.lose(channel);
    }
}

"""The TCP of ns-3 as a reference: one bulk flow over one lossy link, a JSON line for each run.

    .venv-ns3/bin/python benches/references/ns3.py goodput --congestion cubic --rtt 0.01 --loss 0.01 --repeats 5
    .venv-ns3/bin/python benches/references/ns3.py grid --append docs/data/tcp/ns3.jsonl
    .venv-ns3/bin/python benches/references/ns3.py attributes

`make reference-ns3` creates the environment with the wheel of ns-3 from PyPI. ns-3 is under the GPL. This script runs
separately from Penstock, and Penstock neither imports nor contains any part of ns-3.

The network is two nodes and a point-to-point link. Details that matter for a comparison:

- The link's rate counts IP packets. ns-3 also serialises two bytes of PPP header. Its DataRate and its queue are
  therefore multiplied by 1502/1500, which is exact for full packets. An ACK of 52 B takes 4 % more time than it should,
  in the direction that is never full.
- The round trip is the propagation delay of both directions, without queueing and serialisation.
- Each packet, SYNs too, is lost with the probability `loss` at the receiving device (RateErrorModel, packets). RngRun
  is the repeat, and each direction has its own random stream. Losses are the only random events, so repeats without
  loss are equal, and the grid has only one.
- The device's drop-tail queue is the only queue, because ns-3 without flow control installs no queue discipline. There
  is no pacing.
- Segments have 1448 B. Buffers have 6 MiB, because ns-3 has no auto-tuning; in the experiment `buffers`, they have
  ns-3's default of 128 KiB. Everything else is ns-3's default: initial window 10, SACK, timestamps, PRR, delayed ACKs
  of 2 segments or 200 ms, retransmission timeouts of at least 1 s.
- The sender connects. Time starts with its SYN. A download finishes when the receiver has its last byte.
"""

import argparse
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rows import (
    CONGESTION,
    EXPERIMENTS,
    FILE,
    HUNDRED_MBIT,
    MSS,
    PACKET,
    SAMPLE_S,
    SECONDS,
    TEN_MIB,
    WARMUP_S,
    Run,
    append,
    grid,
    line,
    only_ns3,
    read,
    refuse,
    run_of,
)

PPP = 2
"""The header that ns-3's point-to-point device adds to each packet [B]."""
BUFFER = 6 << 20
"""Send and receive buffer [B]: Linux's default limit of a receive buffer, and more than any BDP here."""
DEFAULT_BUFFER = 131_072
"""The default of both buffers in ns-3 [B]."""
GIVE_UP_S = 6 * 3600.0
"""Time limit of a download [s]."""

RECOVERY = {"prr": "ns3::TcpPrrRecovery", "classic": "ns3::TcpClassicRecovery"}
"""When the queue overflows, ns-3.44's default PRR cuts the window twice; classic recovery cuts it once."""
ALGORITHMS = {"cubic": "ns3::TcpCubic", "reno": "ns3::TcpLinuxReno", "newreno": "ns3::TcpNewReno"}

# Trace sources take C++ functions; these keep the last value of each.
WATCH = """
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/applications-module.h"
namespace reference {
using namespace ns3;
uint64_t wanted, received, retransmits;
double finished, rtt;
uint32_t cwnd, ssthresh;
void OnCwnd(uint32_t, uint32_t now) { cwnd = now; }
void OnSsthresh(uint32_t, uint32_t now) { ssthresh = now; }
void OnRtt(Time, Time now) { rtt = now.GetSeconds(); }
void OnRetransmit(Ptr<const Packet>, const TcpHeader&, const Address&, const Address&, Ptr<const TcpSocketBase>) {
    ++retransmits;
}
void OnReceive(Ptr<const Packet> packet, const Address&) {
    received += packet->GetSize();
    if (wanted > 0 && received >= wanted && finished < 0) {
        finished = Simulator::Now().GetSeconds();
        Simulator::Stop();
    }
}
void Connected(Ptr<BulkSendApplication> sender) {
    Ptr<Socket> socket = sender->GetSocket();
    socket->TraceConnectWithoutContext("CongestionWindow", MakeCallback(&OnCwnd));
    socket->TraceConnectWithoutContext("SlowStartThreshold", MakeCallback(&OnSsthresh));
    socket->TraceConnectWithoutContext("RTT", MakeCallback(&OnRtt));
    socket->TraceConnectWithoutContext("Retransmission", MakeCallback(&OnRetransmit));
}
void Watch(Ptr<Application> sender, Ptr<Application> sink, uint64_t bytes) {
    wanted = bytes;
    received = retransmits = cwnd = 0;
    ssthresh = UINT32_MAX;
    finished = rtt = -1;
    sink->TraceConnectWithoutContext("Rx", MakeCallback(&OnReceive));
    Simulator::Schedule(NanoSeconds(1), &Connected, DynamicCast<BulkSendApplication>(sender));
}
}
"""

DOCUMENTED = (
    *("TcpSocket", "TcpSocketBase", "TcpSocketState", "TcpL4Protocol", "TcpCubic", "TcpLinuxReno", "TcpPrrRecovery"),
    *("RttEstimator", "RttMeanDeviation", "PointToPointNetDevice", "DropTailQueue<Packet>", "RateErrorModel"),
)


class Reference:
    """ns-3, loaded once for many runs, because loading takes half a minute."""

    def __init__(self, recovery: str = "prr") -> None:
        """Load the wheel and choose the loss recovery; without the wheel, end with one sentence."""
        # Otherwise, Python takes this file for the package ns3, which has no __init__.py.
        sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
        try:
            from ns import ns
        except ImportError as error:
            refuse(f"ns3: {error}; `make reference-ns3` installs it into .venv-ns3, whose Python must run this")
        import cppyy

        self.ns = ns
        self.recovery = recovery
        if not cppyy.cppdef(WATCH):
            refuse("ns3: ns-3 refuses the C++ of this reference, which was written for ns-3.44")
        self.watch = cppyy.gbl.reference

    def name(self, congestion: str) -> str:
        """The name of the reference in its rows."""
        other = "" if self.recovery == "prr" else f" {self.recovery}"
        return f"ns-{version('ns3').split('.post')[0]} {congestion}{other}"

    def attributes(self) -> Iterator[str]:
        """Every attribute of ns-3's TCP and of this network, with its default."""
        for each in DOCUMENTED:
            type_id = self.ns.TypeId.LookupByName(f"ns3::{each}")
            for index in range(type_id.GetAttributeN()):
                attribute = type_id.GetAttribute(index)
                value = attribute.initialValue.SerializeToString(attribute.checker)
                yield f"{each}.{attribute.name} = {value}"

    def run(self, run: Run) -> dict[str, Any]:
        """Simulate a run and return its row."""
        ns, watch = self.ns, self.watch
        self._build(run)
        samples = []
        if run.experiment == "goodput":
            self._until(WARMUP_S)
            before = watch.received
            self._until(WARMUP_S + SECONDS)
            warmup, seconds, received = WARMUP_S, SECONDS, watch.received - before
        else:
            if run.experiment == "window":
                for step in range(1, round(GIVE_UP_S / SAMPLE_S)):
                    self._until(step * SAMPLE_S)
                    if watch.finished >= 0:
                        break
                    if watch.cwnd > 0:
                        samples.append(self._sample(step * SAMPLE_S))
            else:
                self._until(GIVE_UP_S)
            seconds = watch.finished if watch.finished >= 0 else ns.Simulator.Now().GetSeconds()
            warmup, received = 0.0, watch.received
        row = run.row(
            self.name(run.congestion),
            warmup_s=warmup,
            seconds=seconds,
            bytes=int(received),
            goodput_bytes_per_s=round(received / seconds, 1),
            retransmits=int(watch.retransmits),
            seconds_to_finish=watch.finished if watch.finished >= 0 else None,
            min_rto_s=1.0,
        )
        if run.experiment == "window":
            row["samples"] = samples
        ns.Simulator.Destroy()
        return row

    def _until(self, seconds: float) -> None:
        """Simulate until this time, or until the last byte of the file arrives."""
        simulator = self.ns.Simulator
        left = self.ns.Seconds(seconds) - simulator.Now()
        stop = simulator.Stop(left)
        simulator.Run()
        simulator.Cancel(stop)

    def _sample(self, t: float) -> list[float | None]:
        """Time [s], congestion window [segment], threshold [segment] and smoothed round trip [s]."""
        watch = self.watch
        ssthresh = None if watch.ssthresh >= 1 << 31 else round(watch.ssthresh / MSS, 1)
        return [round(t, 2), round(watch.cwnd / MSS, 1), ssthresh, round(watch.rtt, 4) if watch.rtt >= 0 else None]

    def _build(self, run: Run) -> None:
        """Two nodes, the link, its losses, a sender and a sink, all from time 0."""
        ns = self.ns
        ns.RngSeedManager.SetSeed(1)
        ns.RngSeedManager.SetRun(run.repeat)
        ns.Config.SetDefault("ns3::TcpL4Protocol::SocketType", ns.StringValue(ALGORITHMS[run.congestion]))
        ns.Config.SetDefault("ns3::TcpL4Protocol::RecoveryType", ns.StringValue(RECOVERY[self.recovery]))
        ns.Config.SetDefault("ns3::TcpSocket::SegmentSize", ns.UintegerValue(MSS))
        buffer = DEFAULT_BUFFER if run.experiment == "buffers" else BUFFER
        ns.Config.SetDefault("ns3::TcpSocket::SndBufSize", ns.UintegerValue(buffer))
        ns.Config.SetDefault("ns3::TcpSocket::RcvBufSize", ns.UintegerValue(buffer))

        nodes = ns.NodeContainer()
        nodes.Create(2)
        link = ns.PointToPointHelper()
        rate = round(run.rate_bytes_per_s * 8 * (PACKET + PPP) / PACKET)
        queue = round(run.queue_bytes * (PACKET + PPP) / PACKET)
        link.SetDeviceAttribute("DataRate", ns.StringValue(f"{rate}bps"))
        link.SetDeviceAttribute("Mtu", ns.UintegerValue(PACKET))
        link.SetChannelAttribute("Delay", ns.StringValue(f"{round(run.rtt_s / 2 * 1e9)}ns"))
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns.StringValue(f"{queue}B"))
        link.DisableFlowControl()
        devices = link.Install(nodes)
        for index in range(2):
            errors = ns.CreateObject[ns.RateErrorModel]()
            errors.SetAttribute("ErrorUnit", ns.StringValue("ERROR_UNIT_PACKET"))
            errors.SetAttribute("ErrorRate", ns.DoubleValue(run.loss))
            errors.AssignStreams(index)
            devices.Get(index).SetAttribute("ReceiveErrorModel", ns.PointerValue(errors))

        ns.InternetStackHelper().Install(nodes)
        addresses = ns.Ipv4AddressHelper()
        addresses.SetBase(ns.Ipv4Address("10.1.1.0"), ns.Ipv4Mask("255.255.255.0"))
        interfaces = addresses.Assign(devices)

        port = 9
        there = ns.InetSocketAddress(interfaces.GetAddress(1), port).ConvertTo()
        here = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), port).ConvertTo()
        sink = ns.PacketSinkHelper("ns3::TcpSocketFactory", here).Install(nodes.Get(1))
        bulk = ns.BulkSendHelper("ns3::TcpSocketFactory", there)
        size = 0 if run.experiment == "goodput" else FILE
        bulk.SetAttribute("MaxBytes", ns.UintegerValue(size))
        # BulkSendApplication sends only if all of its bytes fit into the send buffer.
        bulk.SetAttribute("SendSize", ns.UintegerValue(MSS if run.experiment == "buffers" else 64 * MSS))
        sender = bulk.Install(nodes.Get(0))
        sink.Start(ns.Seconds(0))
        sender.Start(ns.Seconds(0))
        self.watch.Watch(sender.Get(0), sink.Get(0), size)


def asked(arguments: argparse.Namespace) -> list[Run]:
    """The runs of the command line."""
    if arguments.experiment == "grid":
        return [run for run in (*grid(), *only_ns3()) if run.loss > 0 or run.repeat == 1]
    rate = arguments.rate or (HUNDRED_MBIT if arguments.experiment == "window" else TEN_MIB)
    return [
        Run(arguments.experiment, congestion, rate, rtt, loss, repeat)
        for congestion in arguments.congestion
        for rtt in arguments.rtt
        for loss in arguments.loss
        for repeat in range(1, arguments.repeats + 1)
    ]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="ns-3's TCP over one lossy link; prints a JSON line for each run")
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "grid", "attributes"])
    parser.add_argument("--congestion", nargs="+", choices=CONGESTION, default=["cubic"])
    parser.add_argument("--rate", type=int, help="[B/s], IP headers included (default: 10 MiB/s; window: 12500000)")
    parser.add_argument("--rtt", nargs="+", type=float, default=[0.01], help="[s]")
    parser.add_argument("--loss", nargs="+", type=float, default=[0.0], help="probability, each direction")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--recovery", choices=RECOVERY, default="prr", help="ns-3's RecoveryType")
    parser.add_argument(
        "--append", type=Path, metavar="FILE", help="append to FILE, without the runs that it already has"
    )
    arguments = parser.parse_args()
    reference = Reference(arguments.recovery)
    if arguments.experiment == "attributes":
        print("\n".join(reference.attributes()))
        return
    if arguments.append is None:
        for run in asked(arguments):
            print(line(reference.run(run)), flush=True)
    else:
        done = {run_of(row) for row in read(arguments.append)}
        append((reference.run(run) for run in asked(arguments) if run not in done), arguments.append)


if __name__ == "__main__":
    main()

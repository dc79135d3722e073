//! CPU time of a process.

use std::fs;
use std::ops::Sub;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// CPU time of all threads, as the scheduler counts it [ns].
    nanos: u64,
    /// Timer ticks of 4 ms in user mode and in the kernel. They only give the ratio of the two, not the total.
    user: u64,
    system: u64,
}

impl Cpu {
    pub(crate) fn of(process: u32) -> Self {
        let read = |file: String| fs::read_to_string(file).expect("the process runs");
        let folder = format!("/proc/{process}");
        let tasks = fs::read_dir(format!("{folder}/task")).expect("the process runs");
        let of_task = |task: fs::DirEntry| {
            let said = read(format!("{}/schedstat", task.path().display()));
            said.split(' ')
                .next()
                .and_then(|nanos| nanos.parse::<u64>().ok())
                .expect("schedstat has a number")
        };
        let nanos = tasks.flatten().map(of_task).sum();
        let stat = read(format!("{folder}/stat"));
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // Fields 14 and 15 of proc(5).
        let [user, system] = [11, 12].map(|at: usize| fields[at].parse().expect("stat has numbers"));
        Cpu { nanos, user, system }
    }

    /// CPU time in user mode and in the kernel [s].
    pub(crate) fn seconds(self) -> [f64; 2] {
        let all = self.nanos as f64 / 1e9;
        let own = self.user as f64 / (self.user + self.system).max(1) as f64;
        [all * own, all * (1.0 - own)]
    }
}

impl Sub for Cpu {
    type Output = Cpu;
    fn sub(self, before: Cpu) -> Cpu {
        Cpu {
            nanos: self.nanos - before.nanos,
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}

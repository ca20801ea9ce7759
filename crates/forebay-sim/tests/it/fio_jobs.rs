//! Random job files for the comparison with fio.
//!
//! Each file has its own swarm of weights: an option is common in one file and absent in the next.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fmt::Write as _;

/// Small numbers from a seed (splitmix64).
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self { state: seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (number << 20) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A job file with the number of its job sections, which are named `j0`, `j1` and so on.
pub(crate) struct Drawn {
    pub(crate) text: String,
    pub(crate) sections: usize,
}

impl Drawn {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let sections = dice.one(&[1, 1, 1, 2, 3]);
        let mut text = String::from("[global]\nthread\n");
        let swarm = dice.one(&[4, 12, 25]);
        if dice.chance(20) {
            option(&mut text, "size", dice.one(&["256k", "1m", "300000"]));
        }
        if dice.chance(10) {
            option(&mut text, "kb_base", dice.one(&["1000", "1024"]));
        }
        let shared = dice.chance(6);
        if shared {
            option(&mut text, "filename", dice.one(&["s", "s:t", "d/s:t:u"]));
        }
        for number in 0..sections {
            let section = Section { dice, swarm, shared, text: String::new() };
            let body = section.draw();
            let _ = write!(text, "[j{number}]\nwrite_iolog={number}.log\n{body}");
        }
        Self { text, sections }
    }
}

struct Section<'a> {
    dice: &'a mut Dice,
    swarm: u64,
    shared: bool,
    text: String,
}

impl Section<'_> {
    fn draw(mut self) -> String {
        let dice = &mut *self.dice;
        let random = dice.chance(65);
        let kind = if random {
            dice.one(&["randread", "randwrite", "randrw"])
        } else {
            dice.one(&["read", "write", "rw", "readwrite"])
        };
        self.mode(kind, random);
        self.blocks(random);
        self.sizes();
        self.files();
        self.randomness(random);
        self.syncs();
        self.rates(kind);
        self.ends();
        if self.rare() {
            let engines = ["sync", "pvsync", "pvsync2", "libaio", "vsync", "mmap"];
            // fio falls over when it syncs a mapping before it has used it.
            let count = engines.len() - usize::from(self.text.contains("sync="));
            let engine = self.dice.one(&engines[..count]);
            option(&mut self.text, "ioengine", engine);
            if engine != "vsync" && self.dice.chance(50) {
                option(&mut self.text, "iodepth", self.dice.one(&["2", "8", "32"]));
            }
        } else if self.rare() {
            option(&mut self.text, "iodepth", "4");
        }
        if self.rare() {
            option(&mut self.text, "stonewall", "1");
        }
        self.text
    }

    fn rare(&mut self) -> bool {
        self.dice.chance(self.swarm)
    }

    fn mode(&mut self, kind: &str, random: bool) {
        let suffix = if !self.rare() {
            ""
        } else if random {
            self.dice.one(&[":1", ":2", ":3", ":8", ":0"])
        } else {
            self.dice.one(&[":4k", ":12k", ":64k", ":-4k", ":-8k", ":-64k", ":1000"])
        };
        option(&mut self.text, "rw", &format!("{kind}{suffix}"));
        if self.rare() {
            option(&mut self.text, "rw_sequencer", self.dice.one(&["sequential", "identical"]));
        }
        if kind.ends_with("rw") || kind == "readwrite" {
            let share = self.dice.one(&["0", "10", "30", "50", "70", "75", "99", "100"]);
            let name = self.dice.one(&["rwmixread", "rwmixwrite", ""]);
            if !name.is_empty() {
                option(&mut self.text, name, share);
            }
        }
    }

    /// One of the block options only: with `bssplit` and `bsrange` together fio can be left with no
    /// size that fits, and draws forever.
    fn blocks(&mut self, random: bool) {
        let dice = &mut *self.dice;
        let text = &mut self.text;
        match dice.below(8) {
            0..=2 => option(text, "bs", dice.one(&["512", "1k", "4k", "8k", "16k", "3k", "5000"])),
            3 => option(text, "bs", dice.one(&["4k,8k", "8k,2k", ",16k", "2k,4k,1k", "4k,"])),
            4 => option(
                text,
                "bsrange",
                dice.one(&["4k-64k", "1k-16k", "512-4k", "3k-20k", "4k-8k,1k-32k", "8k:2k"]),
            ),
            5 => option(
                text,
                "bssplit",
                dice.one(&[
                    "4k/10:64k/50:32k/40",
                    "4k/60:8k/40",
                    "1k:2k:4k",
                    "4k/50:8k/:16k/",
                    "16k/20:4k/20:8k/20:2k/40",
                    "4k/100",
                    "4k/50:8k/50,2k/30:16k/70",
                    ",1k/50:6k/50",
                    "4k/30:12k/90",
                ]),
            ),
            _ => {}
        }
        if dice.chance(self.swarm) {
            option(text, "bs_unaligned", "1");
        }
        if dice.chance(self.swarm / 2) {
            option(text, "bs_is_seq_rand", "1");
        }
        if random && dice.chance(self.swarm) {
            option(text, "blockalign", dice.one(&["512", "4k", "8k", "1k,4k"]));
        }
    }

    fn sizes(&mut self) {
        let dice = &mut *self.dice;
        let text = &mut self.text;
        let size = dice.one(&["64k", "256k", "1m", "2m", "100k", "1000000", "123457", "16k"]);
        if dice.chance(90) {
            option(text, "size", size);
        }
        if dice.chance(self.swarm) {
            let sizes = ["512k", "1m", "64k-512k", "100k-100k", "20k-1m"];
            option(text, "filesize", dice.one(&sizes));
            if dice.chance(30) {
                option(text, "size", dice.one(&["10%", "50%", "99%", "100%"]));
            }
        }
        if dice.chance(self.swarm) {
            let sizes = ["32k", "200k", "3m", "50%", "100%", "7%", "999"];
            option(text, "io_size", dice.one(&sizes));
        }
        if dice.chance(self.swarm) {
            let offsets = ["4k", "64k", "10%", "33%", "5000", "1m"];
            option(text, "offset", dice.one(&offsets));
        }
        if dice.chance(self.swarm) {
            option(text, "offset_increment", dice.one(&["8k", "100k", "5%"]));
        }
        if dice.chance(self.swarm / 2) {
            option(text, "offset_align", dice.one(&["4k", "1k", "64k"]));
        }
    }

    fn files(&mut self) {
        let shared = self.shared;
        if self.rare() {
            let names = ["f", "f:g", "f:g:h", r"a\:b:c"];
            option(&mut self.text, "filename", self.dice.one(&names));
        }
        if self.rare() {
            option(&mut self.text, "nrfiles", self.dice.one(&["2", "3", "5", "7"]));
            if self.dice.chance(25) {
                option(&mut self.text, "openfiles", self.dice.one(&["1", "2", "9"]));
            }
        }
        if self.rare() {
            option(&mut self.text, "directory", self.dice.one(&["d", "d:e"]));
        }
        if self.rare() {
            let formats = ["$jobname_$jobnum/$filenum", "x.$jobnum.$jobname.$filenum.long-name"];
            option(&mut self.text, "filename_format", self.dice.one(&formats));
        }
        if self.dice.chance(self.swarm * 2) {
            let kinds = [
                "roundrobin",
                "roundrobin:4",
                "sequential",
                "random",
                "random:3",
                "sequential:2",
                "roundrobin:0",
            ];
            option(&mut self.text, "file_service_type", self.dice.one(&kinds));
        }
        if self.rare() {
            option(&mut self.text, "overwrite", "1");
        }
        if !shared && self.rare() {
            let kinds = ["none", "native", "posix", "truncate", "keep"];
            option(&mut self.text, "fallocate", self.dice.one(&kinds));
        }
    }

    fn randomness(&mut self, random: bool) {
        let dice = &mut *self.dice;
        let text = &mut self.text;
        if dice.chance(self.swarm * 2) {
            option(text, "randseed", &dice.below(1 << 40).to_string());
            if dice.chance(40) {
                option(text, "randrepeat", dice.one(&["0", "1"]));
            }
        }
        if !random {
            return;
        }
        if dice.chance(self.swarm) {
            text.push_str("norandommap\n");
        }
        if dice.chance(self.swarm * 2) {
            let kinds = [
                "random",
                "zipf",
                "zipf:0.8",
                "zipf:1.2",
                "zipf:1.1:0.3",
                "pareto",
                "pareto:0.2",
                "pareto:0.9",
                "pareto:0.3:0.5",
                "zipf:2.5",
            ];
            option(text, "random_distribution", dice.one(&kinds));
        }
        if dice.chance(self.swarm) {
            option(text, "random_generator", dice.one(&["tausworthe", "tausworthe64"]));
        }
        if dice.chance(self.swarm) {
            let shares = ["50", "90", "0", "20,80", "100,30", "1"];
            option(text, "percentage_random", dice.one(&shares));
        }
    }

    fn syncs(&mut self) {
        for (name, values) in [
            ("fsync", &["0", "1", "2", "7"][..]),
            ("fdatasync", &["1", "3", "10"]),
            ("end_fsync", &["1"]),
            ("fsync_on_close", &["1"]),
            ("sync", &["none", "0", "1", "sync", "dsync"]),
        ] {
            if self.dice.chance(self.swarm * 2) {
                let value = self.dice.one(values);
                option(&mut self.text, name, value);
            }
        }
        if self.dice.chance(self.swarm / 4) {
            option(&mut self.text, "create_on_open", "1");
        }
    }

    /// Rates that are soon used up. The order of a mixed job would depend on its time.
    fn rates(&mut self, kind: &str) {
        if kind.ends_with("rw") || kind == "readwrite" || !self.rare() {
            return;
        }
        match self.dice.below(3) {
            0 => option(&mut self.text, "rate", self.dice.one(&["200m", "100m,300m", ",99m"])),
            1 => option(&mut self.text, "rate_iops", self.dice.one(&["40k", "30000,50k"])),
            _ => {
                option(&mut self.text, "rate", "300m");
                option(&mut self.text, "thinktime", "50");
                option(&mut self.text, "rate_ignore_thinktime", "1");
            }
        }
    }

    fn ends(&mut self) {
        let dice = &mut *self.dice;
        let text = &mut self.text;
        if dice.chance(self.swarm) {
            // A clone's log must fit one buffer of fio, or the logs get mixed up.
            option(text, "numjobs", dice.one(&["2", "3", "4"]));
            option(text, "number_ios", &dice.between(1, 50).to_string());
            return;
        }
        if dice.chance(self.swarm) {
            option(text, "number_ios", &dice.between(1, 300).to_string());
        }
        if dice.chance(self.swarm) {
            option(text, "loops", dice.one(&["0", "2", "3"]));
        }
        if dice.chance(self.swarm / 2) {
            option(text, "do_verify", "0");
        }
        if dice.chance(self.swarm / 3) {
            text.push_str("time_based\n");
            option(text, "runtime", "40ms");
        }
    }
}

fn option(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name}={value}");
}

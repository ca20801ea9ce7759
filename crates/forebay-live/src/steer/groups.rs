//! Which users are steered as one: processes that share a file, and files of a process that are too
//! many to be judged one by one.
//!
//! Source:     Forebay.
//! Behaviour:  processes that hold one open file description are one group, led by the one that
//!             came first: only one trial may move its window. Those that opened the file
//!             themselves are groups of their own. Where the kernel does not tell descriptions
//!             apart, processes that ask a file in the same way are one group.
//!             The group's windows are summed, and what each process got while it was in the group.
//!             A process that faults in many files of a device, in each too seldom to be judged, is
//!             one group over these files, its *pool*, of which the inode number is 0.
//! Differs:    nothing.
//! Not for:    a description that two processes ask in two ways: the way with more windows decides.
//!             A process that opens a file twice has both descriptions steered alike: events name
//!             the file alone.

use std::collections::{BTreeMap, BTreeSet};

use super::User;
use super::files::{Files, OPEN_MAX, Progress};
use super::users::Asked;
use crate::number::{DevNumber, FileKey};
use crate::pattern::Pattern;

/// The groups of processes.
#[derive(Debug, Default)]
pub struct Groups {
    /// The leader of each user in a group of more than one.
    leaders: BTreeMap<User, User>,
    /// What the group of each leader got.
    tallies: BTreeMap<User, Tally>,
}

/// Whether two processes hold one open file description; none if that cannot be told.
pub type Shares<'a> = dyn FnMut(&User, &User) -> Option<bool> + 'a;

/// Progress of a group. A process adds what it got after it joined, so that the sum does not jump
/// when processes come and go.
#[derive(Debug, Default)]
struct Tally {
    sum: Progress,
    last: BTreeMap<u32, Progress>,
}

impl Tally {
    fn add(&mut self, now: &[(u32, Progress)]) -> Progress {
        let mut last = BTreeMap::new();
        for (process, progress) in now {
            let then = self.last.get(process).filter(|then| then.started == progress.started);
            if let Some(then) = then {
                self.sum.grow(progress, then);
            }
            last.insert(*process, *progress);
        }
        self.last = last;
        self.sum
    }
}

impl User {
    /// The pool of a process on a file system.
    pub const fn pool(dev: DevNumber, process: u32) -> Self {
        Self { file: FileKey { dev, ino: 0 }, process }
    }

    /// Whether it stands for all files of a process that are faulted in seldom.
    pub const fn is_pool(&self) -> bool {
        self.file.ino == 0
    }
}

impl Groups {
    /// The user whose window stands for this one's.
    pub fn leader(&self, user: User) -> User {
        self.leaders.get(&user).copied().unwrap_or(user)
    }

    /// The processes of a group, its leader's among them.
    pub fn processes(&self, leader: User) -> Vec<u32> {
        let followers = self.leaders.iter().filter(move |(_, of)| **of == leader);
        let mut all: Vec<u32> = followers.map(|(user, _)| user.process).collect();
        all.push(leader.process);
        all
    }

    /// What a group got so far, of which its processes have these counters; none without any.
    pub fn progress(
        &mut self,
        leader: User,
        now: &[(u32, Progress)],
        files: &Files,
    ) -> Option<Progress> {
        if now.is_empty() {
            return None;
        }
        if self.tallies.len() >= TALLIES_MAX {
            self.tallies.retain(|user, _| files.knows(user));
        }
        Some(self.tallies.entry(leader).or_default().add(now))
    }

    /// A user, and all that follow it, follow another one from now on.
    pub fn follow(&mut self, user: User, leader: User) {
        for of in self.leaders.values_mut().filter(|of| **of == user) {
            *of = leader;
        }
        self.leaders.insert(user, leader);
        self.tallies.remove(&user);
    }

    /// Sums up what was asked by group. A user that is new joins those that hold the same
    /// description, or ask its file in the same way if that cannot be told.
    pub fn merge(&mut self, asked: &[Asked], files: &Files, shares: &mut Shares<'_>) -> Vec<Asked> {
        let mut merged: BTreeMap<User, (Asked, u64)> = BTreeMap::new();
        for asked in asked {
            let user = asked.user;
            if !self.leaders.contains_key(&user)
                && !files.knows(&user)
                && !user.is_pool()
                && self.leaders.len() < GROUPED_MAX
            {
                let others: Vec<User> =
                    merged.keys().filter(|other| other.file == user.file).copied().collect();
                if let Some(leader) = self.leader_for(asked, &others, files, shares) {
                    self.leaders.insert(user, leader);
                }
            }
            let leader = self.leader(user);
            let (sum, most) =
                merged.entry(leader).or_insert((Asked { user: leader, windows: 0, ..*asked }, 0));
            sum.windows += asked.windows;
            if asked.window > 0 {
                sum.window = asked.window;
            }
            if asked.pattern != Pattern::Unclear && asked.windows >= *most {
                (sum.pattern, *most) = (asked.pattern, asked.windows);
            }
        }
        merged.into_values().map(|(asked, _)| asked).collect()
    }

    /// The leader of the group that a new user belongs to, among known users and `others`.
    fn leader_for(
        &self,
        asked: &Asked,
        others: &[User],
        files: &Files,
        shares: &mut Shares<'_>,
    ) -> Option<User> {
        let user = asked.user;
        let known = files.users_of(user.file);
        let leaders: BTreeSet<User> = known.chain(others.iter().copied()).collect();
        let mut untold = BTreeSet::new();
        for leader in leaders {
            let of_group = self.processes(leader).into_iter().take(COMPARED_MAX);
            let mut told: Vec<Option<bool>> = Vec::new();
            for process in of_group {
                told.push(shares(&user, &User { process, ..leader }));
                if told.last() == Some(&Some(true)) {
                    return Some(leader);
                }
            }
            if told.iter().all(Option::is_none) {
                untold.insert(leader);
            }
        }
        let is_alike = |leader: &&User| files.is_asked(leader, asked.pattern);
        let found = untold.iter().find(is_alike).copied();
        found.or_else(|| others.iter().find(|other| untold.contains(other)).copied())
    }

    /// A process has ended. Groups that it led are led by another of theirs: the leader that was,
    /// and the one that is.
    pub fn exited(&mut self, process: u32) -> Vec<(User, User)> {
        self.leaders.retain(|user, _| user.process != process);
        let mut heirs: BTreeMap<User, User> = BTreeMap::new();
        for (user, leader) in self.leaders.iter().filter(|(_, leader)| leader.process == process) {
            heirs.entry(*leader).or_insert(*user);
        }
        for leader in self.leaders.values_mut() {
            *leader = heirs.get(leader).copied().unwrap_or(*leader);
        }
        self.leaders.retain(|user, leader| user != leader);
        for (from, to) in &heirs {
            if let Some(tally) = self.tallies.remove(from) {
                self.tallies.insert(*to, tally);
            }
        }
        self.tallies.retain(|user, _| user.process != process);
        heirs.into_iter().collect()
    }
}

/// Users that follow another one; beyond, each is steered by itself.
const GROUPED_MAX: usize = 1_024;

/// Processes of a group that a new one is compared with: in the rule all of them hold the same.
const COMPARED_MAX: usize = 8;

/// Tallies beyond which those of forgotten files go.
const TALLIES_MAX: usize = 2 * OPEN_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::window::Bounds;

    const FILE: FileKey = FileKey { dev: DevNumber { major: 8, minor: 0 }, ino: 12 };

    fn asked(process: u32, pattern: Pattern, windows: u64) -> Asked {
        let user = User { file: FILE, process };
        Asked { user, pattern, windows, window: 128, brought: 0 }
    }

    fn of(process: u32) -> User {
        User { file: FILE, process }
    }

    /// A kernel without kcmp(2).
    fn untold(_: &User, _: &User) -> Option<bool> {
        None
    }

    #[test]
    fn processes_of_one_file_are_one_and_outlive_their_leader() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let faults = Pattern::RandomFaults;
        let all = [asked(3, faults, 5), asked(4, Pattern::Unclear, 2), asked(5, faults, 1)];
        let merged = groups.merge(&all, &files, &mut untold);
        assert_eq!(merged, [asked(3, faults, 8)]);
        assert_eq!(groups.processes(merged[0].user), [4, 5, 3]);
        assert_eq!(groups.exited(5), []);
        assert_eq!(groups.exited(3), [(of(3), of(4))]);
        assert_eq!(groups.leader(of(4)), of(4));
        assert_eq!(groups.processes(of(4)), [4]);
        assert_eq!(groups.exited(4), []);
    }

    #[test]
    fn one_description_is_one_group_and_another_of_the_same_file_is_another() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let faults = Pattern::RandomFaults;
        // 3 and 5 hold one description, 4 and 6 another; 7 may not be seen.
        let mut shares = |one: &User, other: &User| match [one.process, other.process] {
            [7, _] | [_, 7] => None,
            [one, other] => Some(one % 2 == other % 2),
        };
        let all = [3, 4, 5, 6].map(|process| asked(process, faults, 2));
        let merged = groups.merge(&all, &files, &mut shares);
        assert_eq!(merged, [asked(3, faults, 4), asked(4, faults, 4)]);
        assert_eq!(groups.processes(of(3)), [5, 3]);
        assert_eq!(groups.processes(of(4)), [6, 4]);
        // In which way it is read does not matter to a description.
        let all = [asked(3, faults, 2), asked(9, Pattern::Stream, 1), asked(7, faults, 1)];
        let merged = groups.merge(&all, &files, &mut shares);
        assert_eq!(merged, [asked(3, faults, 4)], "what cannot be told is grouped by the way");
        assert_eq!(groups.processes(of(3)), [5, 7, 9, 3]);
    }

    #[test]
    fn a_group_can_follow_another_one() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let faults = Pattern::RandomFaults;
        let mut shares = |one: &User, other: &User| Some(one.process / 10 == other.process / 10);
        let all = [11, 12, 21].map(|process| asked(process, faults, 1));
        assert_eq!(groups.merge(&all, &files, &mut shares).len(), 2);
        groups.follow(of(11), of(21));
        assert_eq!(groups.processes(of(21)), [11, 12, 21]);
        assert_eq!(groups.merge(&all, &files, &mut shares), [asked(21, faults, 3)]);
    }

    /// The sum of the counters jumped by all that a process had read before it joined, and fell
    /// when one ended, which trials took for gain and loss.
    #[test]
    fn progress_does_not_jump_when_processes_come_and_go() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let got = |process, major_faults, started| {
            (process, Progress { major_faults, started, ..Progress::default() })
        };
        let mut sum = |now: &[_]| groups.progress(of(3), now, &files).map(|it| it.major_faults);
        assert_eq!(sum(&[got(3, 100, 1)]), Some(0));
        assert_eq!(sum(&[got(3, 110, 1), got(4, 7_000, 1)]), Some(10));
        assert_eq!(sum(&[got(3, 120, 1), got(4, 7_005, 1)]), Some(25));
        assert_eq!(sum(&[got(4, 7_010, 1)]), Some(30), "3 has ended");
        assert_eq!(sum(&[got(4, 9_000, 2)]), Some(30), "another of the same number");
        assert_eq!(sum(&[]), None);
    }

    #[test]
    fn the_way_with_more_windows_decides() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let all = [asked(3, Pattern::Stream, 2), asked(4, Pattern::RandomFaults, 9)];
        let merged = groups.merge(&all, &files, &mut untold);
        assert_eq!(merged[0].pattern, Pattern::RandomFaults);
    }

    #[test]
    fn a_pool_is_no_file() {
        let mut groups = Groups::default();
        let files = Files::new(Bounds::default());
        let of = |process| Asked {
            user: User::pool(FILE.dev, process),
            ..asked(process, Pattern::RandomFaults, 9)
        };
        assert_eq!(groups.merge(&[of(3), of(4)], &files, &mut |_, _| Some(true)).len(), 2);
    }
}

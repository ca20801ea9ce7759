//! Which users are steered as one: processes that share a file, and files of a process that are too
//! many to be judged one by one.
//!
//! Source:     Forebay.
//! Behaviour:  processes that ask a file in the same way are one group, led by the one that came
//!             first: forked workers hold one description, whose window only one trial may move.
//!             The group's windows and progress are summed. A process that faults in many files of
//!             a device, in each too seldom to be judged, is one group over these files, its
//!             *pool*, of which the inode number is 0.
//! Differs:    nothing.
//! Not for:    a description that two processes ask in two ways: the way with more windows decides.

use std::collections::BTreeMap;

use super::User;
use super::files::Files;
use super::users::Asked;
use crate::number::{DevNumber, FileKey};
use crate::pattern::Pattern;

/// The groups of processes.
#[derive(Debug, Default)]
pub struct Groups {
    /// The leader of each user in a group of more than one.
    leaders: BTreeMap<User, User>,
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

    /// Sums up what was asked by group. A user that is new joins those that ask its file in the
    /// same way.
    pub fn merge(&mut self, asked: &[Asked], files: &Files) -> Vec<Asked> {
        let mut merged: BTreeMap<User, (Asked, u64)> = BTreeMap::new();
        for asked in asked {
            let user = asked.user;
            if !self.leaders.contains_key(&user) && !files.knows(&user) && !user.is_pool() {
                let others = merged.keys().find(|other| other.file == user.file).copied();
                let leader = files.user_of(user.file, asked.pattern).or(others);
                if let Some(leader) = leader
                    && self.leaders.len() < GROUPED_MAX
                {
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
        heirs.into_iter().collect()
    }
}

/// Users that follow another one; beyond, each is steered by itself.
const GROUPED_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::window::Bounds;

    const FILE: FileKey = FileKey { dev: DevNumber { major: 8, minor: 0 }, ino: 12 };

    fn asked(process: u32, pattern: Pattern, windows: u64) -> Asked {
        let user = User { file: FILE, process };
        Asked { user, pattern, windows, window: 128, brought: 0 }
    }

    #[test]
    fn processes_of_one_file_are_one_and_outlive_their_leader() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let faults = Pattern::RandomFaults;
        let all = [asked(3, faults, 5), asked(4, Pattern::Unclear, 2), asked(5, faults, 1)];
        let merged = groups.merge(&all, &files);
        assert_eq!(merged, [asked(3, faults, 8)]);
        assert_eq!(groups.processes(merged[0].user), [4, 5, 3]);
        let user = |process| User { file: FILE, process };
        assert_eq!(groups.exited(5), []);
        assert_eq!(groups.exited(3), [(user(3), user(4))]);
        assert_eq!(groups.leader(user(4)), user(4));
        assert_eq!(groups.processes(user(4)), [4]);
        assert_eq!(groups.exited(4), []);
    }

    #[test]
    fn the_way_with_more_windows_decides() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let all = [asked(3, Pattern::Stream, 2), asked(4, Pattern::RandomFaults, 9)];
        assert_eq!(groups.merge(&all, &files)[0].pattern, Pattern::RandomFaults);
    }

    #[test]
    fn a_pool_is_no_file() {
        let mut groups = Groups::default();
        let files = Files::new(Bounds::default());
        let of = |process| Asked {
            user: User::pool(FILE.dev, process),
            ..asked(process, Pattern::RandomFaults, 9)
        };
        assert_eq!(groups.merge(&[of(3), of(4)], &files).len(), 2);
    }
}

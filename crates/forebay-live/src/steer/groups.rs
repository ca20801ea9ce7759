//! Which users are steered as one: processes that share a file, and files of a process that are too
//! many to be judged one by one.
//!
//! Source:     Forebay.
//! Behaviour:  processes that hold one open file description are one group, led by the one that
//!             came first: only one trial may move its window. Those that opened the file
//!             themselves and read it in the same way are one group too, because evidence and
//!             progress of one of them say the same of the others; one that turns to another way,
//!             while most do not, leaves with its own window. Where the kernel does not tell
//!             descriptions apart, processes that ask a file in the same way are one group.
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
    /// The leaders of descriptions that are steered with another one of their file, and that one.
    heads: BTreeMap<User, User>,
    moves: Vec<GroupMove>,
    /// What the group of each leader got.
    tallies: BTreeMap<User, Tally>,
}

/// A description that is to get another window because its group is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMove {
    /// It is read as those of this leader, and gets their window.
    Joined {
        /// The description's leader.
        user: User,
        /// The group's.
        leader: User,
    },
    /// It is read in another way than those of this leader, and gets its own window. If it led
    /// them, the leader is new.
    Left {
        /// The description's leader.
        user: User,
        /// The group's.
        leader: User,
        /// Whether it led them.
        led: bool,
    },
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
        self.sum.threads = 0;
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
        let leader = self.leaders.get(&user).copied().unwrap_or(user);
        self.heads.get(&leader).copied().unwrap_or(leader)
    }

    /// The processes of a group, its leader's among them.
    pub fn processes(&self, leader: User) -> Vec<u32> {
        let users = self.leaders.keys().chain(self.heads.keys());
        let followers = users.filter(|user| self.leader(**user) == leader);
        let mut all: Vec<u32> = followers.map(|user| user.process).collect();
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
        let all = self.leaders.values_mut().chain(self.heads.values_mut());
        for of in all.filter(|of| **of == user) {
            *of = leader;
        }
        self.heads.remove(&leader);
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
                && !self.heads.contains_key(&user)
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
            let leader = self.leaders.get(&user).copied().unwrap_or(user);
            let (sum, most) =
                merged.entry(leader).or_insert((Asked { user: leader, windows: 0, ..*asked }, 0));
            add(sum, most, asked);
        }
        self.join_alike(merged.into_values().map(|(asked, _)| asked).collect(), files)
    }

    /// What to do about descriptions whose group is another one since the last call.
    pub fn moves(&mut self) -> Vec<GroupMove> {
        std::mem::take(&mut self.moves)
    }

    /// Sums up what was asked of descriptions of one file that are read in the same way.
    fn join_alike(&mut self, asked: Vec<Asked>, files: &Files) -> Vec<Asked> {
        let mut pools: BTreeMap<User, Vec<Asked>> = BTreeMap::new();
        for asked in asked {
            let user = asked.user;
            let is_new = !self.heads.contains_key(&user) && !files.knows(&user);
            if is_new && !user.is_pool() && self.heads.len() < GROUPED_MAX {
                let known =
                    files.users_of(user.file).filter(|it| files.is_asked(it, asked.pattern));
                let others = pools.iter().filter(|(head, all)| {
                    let is_alike = |it: &Asked| {
                        let unclear = [it.pattern, asked.pattern].contains(&Pattern::Unclear);
                        unclear || it.pattern.is_like(asked.pattern)
                    };
                    head.file == user.file && !files.knows(head) && all.iter().all(is_alike)
                });
                let others = others.map(|(head, _)| *head);
                if let Some(head) = known.chain(others).find(|head| *head != user) {
                    self.heads.insert(user, head);
                    if files.window(&head) != files.own_window(&head) {
                        // At once: its large windows would hold up all the others.
                        self.moves.push(GroupMove::Joined { user, leader: head });
                    }
                }
            }
            pools.entry(self.leader(user)).or_default().push(asked);
        }
        let mut all = Vec::new();
        for (head, members) in pools {
            let (apart, alike) = self.parted(head, members, files);
            let mut sum: Option<(Asked, u64)> = None;
            for asked in alike {
                let user = self.leader(asked.user);
                let new = (Asked { user, windows: 0, ..asked }, 0);
                let (sum, most) = sum.get_or_insert(new);
                add(sum, most, &asked);
            }
            all.extend(apart.into_iter().chain(sum.map(|(asked, _)| asked)));
        }
        all.sort_unstable_by_key(|asked| asked.user);
        all
    }

    /// The members of a group that leave it because they are read in another way, and the others.
    /// If most are, the group as a whole has turned.
    fn parted(
        &mut self,
        head: User,
        members: Vec<Asked>,
        files: &Files,
    ) -> (Vec<Asked>, Vec<Asked>) {
        let known = files.pattern(&head);
        let clear = members.iter().filter(|asked| asked.pattern != Pattern::Unclear);
        let first = clear.max_by_key(|asked| asked.windows).map_or(known, |asked| asked.pattern);
        let way = if known == Pattern::Unclear { first } else { known };
        let differs =
            |asked: &Asked| asked.pattern != Pattern::Unclear && !asked.pattern.is_like(way);
        let count = members.iter().filter(|asked| differs(asked)).count();
        let all = 1 + self.heads.values().filter(|of| **of == head).count();
        if count * 2 > members.len() && count * 2 > all.min(TURNS_MAX) {
            return (Vec::new(), members);
        }
        let (apart, alike): (Vec<_>, Vec<_>) = members.into_iter().partition(differs);
        apart.iter().for_each(|asked| self.leave(asked.user));
        (apart, alike)
    }

    /// A description is steered by itself from now on.
    fn leave(&mut self, user: User) {
        if let Some(leader) = self.heads.remove(&user) {
            self.moves.push(GroupMove::Left { user, leader, led: false });
            return;
        }
        let heir = self.heads.iter().find(|(_, head)| **head == user).map(|(member, _)| *member);
        let Some(leader) = heir else { return };
        self.heads.remove(&leader);
        self.heads.values_mut().filter(|head| **head == user).for_each(|head| *head = leader);
        if let Some(tally) = self.tallies.remove(&user) {
            self.tallies.insert(leader, tally);
        }
        self.moves.push(GroupMove::Left { user, leader, led: true });
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
            if let Some(head) = self.heads.remove(from) {
                self.heads.insert(*to, head);
            }
        }
        self.heads.retain(|user, _| user.process != process);
        for (user, head) in self.heads.iter().filter(|(_, head)| head.process == process) {
            heirs.entry(*head).or_insert(*user);
        }
        for head in self.heads.values_mut() {
            *head = heirs.get(head).copied().unwrap_or(*head);
        }
        self.heads.retain(|user, head| user != head);
        for (from, to) in &heirs {
            if let Some(tally) = self.tallies.remove(from) {
                self.tallies.insert(*to, tally);
            }
        }
        self.tallies.retain(|user, _| user.process != process);
        heirs.into_iter().collect()
    }
}

/// Adds what was asked by one of a group.
fn add(sum: &mut Asked, most: &mut u64, asked: &Asked) {
    sum.windows += asked.windows;
    if asked.window > 0 {
        sum.window = asked.window;
    }
    if asked.pattern != Pattern::Unclear && asked.windows >= *most {
        (sum.pattern, *most) = (asked.pattern, asked.windows);
    }
}

/// Users that follow another one; beyond, each is steered by itself.
const GROUPED_MAX: usize = 1_024;

/// Of larger groups, more than half of so many members turn them; fewer are seen at once.
const TURNS_MAX: usize = 8;

/// Processes of a group that a new one is compared with: in the rule all of them hold the same.
const COMPARED_MAX: usize = 8;

/// Tallies beyond which those of forgotten files go.
const TALLIES_MAX: usize = 2 * OPEN_MAX;

#[cfg(test)]
mod tests {
    use forebay_core::time::Instant;

    use super::*;
    use crate::steer::files::{Around, Seen};
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
    fn one_description_is_one_group_however_it_is_read() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let (faults, stream) = (Pattern::RandomFaults, Pattern::Stream);
        // 3 and 5 hold one description, 4 and 6 another; 7 may not be seen.
        let mut shares = |one: &User, other: &User| match [one.process, other.process] {
            [7, _] | [_, 7] => None,
            [one, other] => Some(one % 2 == other % 2),
        };
        let way = |process| if process % 2 == 0 { stream } else { faults };
        let all = [3, 4, 5, 6].map(|process| asked(process, way(process), 2));
        let merged = groups.merge(&all, &files, &mut shares);
        assert_eq!(merged, [asked(3, faults, 4), asked(4, stream, 4)]);
        assert_eq!(groups.processes(of(3)), [5, 3]);
        assert_eq!(groups.processes(of(4)), [6, 4]);
        // In which way it is read does not matter to a description.
        let all = [asked(3, faults, 2), asked(9, stream, 1), asked(7, faults, 1)];
        let merged = groups.merge(&all, &files, &mut shares);
        assert_eq!(merged, [asked(3, faults, 4)], "what cannot be told is grouped by the way");
        assert_eq!(groups.processes(of(3)), [5, 7, 9, 3]);
    }

    /// How each process reads, what is asked of groups then, which moves there are, and why.
    type Looked<'a> = (&'a [(u32, Pattern)], &'a [Asked], &'a [GroupMove], &'a str);

    /// A look at a group of descriptions that their processes opened themselves.
    fn looked(groups: &mut Groups, files: &mut Files, ways: &[(u32, Pattern)]) -> Vec<Asked> {
        let all: Vec<Asked> = ways.iter().map(|(process, way)| asked(*process, *way, 2)).collect();
        let merged = groups.merge(&all, files, &mut |_, _| Some(false));
        for asked in &merged {
            let Asked { user, pattern, windows, .. } = *asked;
            let window = Some(128);
            let (device, progress) = (FILE.dev, Some(Progress::default()));
            let (cuts, size, brought, threads) = (false, None, 0, 1);
            let seen = Seen {
                user,
                device,
                cuts,
                pattern,
                windows,
                is_its: true,
                window,
                size,
                progress,
                brought,
                threads,
            };
            files.look(Instant::ZERO, &seen, &Around::default());
        }
        merged
    }

    #[test]
    fn descriptions_that_are_read_in_the_same_way_are_one_group_and_others_leave_it() {
        let (faults, stream, unclear) = (Pattern::RandomFaults, Pattern::Stream, Pattern::Unclear);
        let begin = [(3, unclear), (4, unclear), (5, unclear), (6, unclear)];
        let table: [Looked<'_>; 6] = [
            (
                &[(3, faults), (5, faults)],
                &[asked(3, faults, 4)],
                &[],
                "two of them say it for all",
            ),
            (&[(4, unclear)], &[asked(3, unclear, 2)], &[], "what is unclear stays"),
            (
                &[(3, faults), (4, stream), (5, faults)],
                &[asked(3, faults, 4), asked(4, stream, 2)],
                &[GroupMove::Left { user: of(4), leader: of(3), led: false }],
                "one that turns leaves",
            ),
            (
                &[(3, stream), (4, faults), (5, faults)],
                &[asked(3, stream, 2), asked(4, faults, 4)],
                &[GroupMove::Left { user: of(3), leader: of(4), led: true }],
                "the leader may be the one",
            ),
            (
                &[(3, stream), (4, stream), (5, stream)],
                &[asked(3, stream, 6)],
                &[],
                "most have turned, and so has the group",
            ),
            (
                &[(3, stream)],
                &[asked(3, stream, 2)],
                &[GroupMove::Left { user: of(3), leader: of(4), led: true }],
                "one of four does not turn the group",
            ),
        ];
        for (ways, expected, moves, why) in table {
            let (mut groups, mut files) = (Groups::default(), Files::new(Bounds::default()));
            let merged = looked(&mut groups, &mut files, &begin);
            assert_eq!(merged, [asked(3, unclear, 8)]);
            assert_eq!(groups.processes(of(3)), [4, 5, 6, 3]);
            let all = begin.map(|(process, _)| (process, faults));
            looked(&mut groups, &mut files, &all);
            let merged = looked(&mut groups, &mut files, ways);
            assert_eq!(merged, expected, "{why}");
            assert_eq!(groups.moves(), moves, "{why}");
        }
    }

    /// A process that came later kept its large window until it was clear by itself, and held up
    /// fifteen others.
    #[test]
    fn a_process_that_comes_later_gets_the_window_of_its_group_at_once() {
        let (mut groups, mut files) = (Groups::default(), Files::new(Bounds::default()));
        let faults = Pattern::RandomFaults;
        for look in 1..=4 {
            let progress = Progress { major_faults: look * 9, ..Progress::default() };
            let seen = Seen {
                user: of(3),
                device: FILE.dev,
                cuts: false,
                pattern: faults,
                windows: 9,
                is_its: true,
                window: Some(8_192),
                size: None,
                progress: Some(progress),
                brought: 0,
                threads: 2,
            };
            let now = Instant::ZERO + forebay_core::time::Duration::from_millis(250 * look);
            if files.look(now, &seen, &Around::default()).is_some() {
                files.done(of(3), crate::steer::Done::Applied);
            }
        }
        assert_ne!(files.window(&of(3)), files.own_window(&of(3)));
        looked(&mut groups, &mut files, &[(3, faults), (5, Pattern::Unclear)]);
        assert_eq!(groups.moves(), [GroupMove::Joined { user: of(5), leader: of(3) }]);
        assert_eq!(groups.moves(), [], "once");
    }

    #[test]
    fn the_end_of_a_process_leaves_the_others_one_group() {
        let (mut groups, mut files) = (Groups::default(), Files::new(Bounds::default()));
        let all = [3, 4, 5].map(|process| (process, Pattern::RandomFaults));
        looked(&mut groups, &mut files, &all);
        assert_eq!(groups.exited(4), []);
        assert_eq!(groups.processes(of(3)), [5, 3]);
        assert_eq!(groups.exited(3), [(of(3), of(5))]);
        assert_eq!((groups.processes(of(5)), groups.leader(of(5))), (vec![5], of(5)));
    }

    #[test]
    fn a_group_can_follow_another_one() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let faults = Pattern::RandomFaults;
        let mut shares = |one: &User, other: &User| Some(one.process / 10 == other.process / 10);
        let ways = [(11, Pattern::Stream), (12, Pattern::Stream), (21, faults)];
        let all = ways.map(|(process, way)| asked(process, way, 1));
        assert_eq!(groups.merge(&all, &files, &mut shares).len(), 2);
        groups.follow(of(11), of(21));
        assert_eq!(groups.processes(of(21)), [11, 12, 21]);
        let all = [11, 12, 21].map(|process| asked(process, faults, 1));
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
    fn threads_are_those_of_now() {
        let (mut groups, files) = (Groups::default(), Files::new(Bounds::default()));
        let has = |process, threads| (process, Progress { threads, ..Progress::default() });
        let mut sum = |now: &[_]| groups.progress(of(3), now, &files).map(|it| it.threads);
        assert_eq!(sum(&[has(3, 9), has(4, 2)]), Some(0), "nothing is known of them yet");
        assert_eq!(sum(&[has(3, 32), has(4, 2)]), Some(34));
        assert_eq!(sum(&[has(3, 1)]), Some(1));
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

//! From `SLOT=NAME` as it was typed to a policy for each slot of the path.
//!
//! ```text
//!   --policy flush=linux-6          one text     \
//!   --compare throttle=paced,off    two texts     >  the product: two sets of policies
//!   not typed                       the default  /
//! ```

use anyhow::{Context, Result, bail};
use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::bdflush_vector::{FIELDS, Vector};
use forebay_core::flush::{self, Flush};
use forebay_core::policy::{Slot, Spec, SpecError};
use forebay_core::readahead::{self, Readahead};
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
use forebay_report::messages::{self, Complaint};
use forebay_sim::machine::Kernel;
use forebay_sim::scenario::{OwnPolicies, PolicySet};

use crate::args::PolicyChoice;

/// The slots that policies can fill, in the order of a table's columns.
pub(crate) const SLOTS: [&str; 7] = [
    <dyn Readahead as Slot>::NAME,
    <dyn Flush as Slot>::NAME,
    <dyn Controller as Slot>::NAME,
    <dyn Throttle as Slot>::NAME,
    <dyn Elevator as Slot>::NAME,
    <dyn Dispatch as Slot>::NAME,
    <dyn Reclaim as Slot>::NAME,
];

/// The place of readahead among the slots.
pub(crate) const READAHEAD: usize = 0;

/// The place of the elevator among the slots.
pub(crate) const ELEVATOR: usize = 4;

/// The place of dispatch among the slots.
pub(crate) const DISPATCH: usize = 5;

/// Something for each slot, in the order of [`SLOTS`].
pub(crate) type PerSlot<T> = [T; SLOTS.len()];

/// The policies of one run.
#[derive(Clone, Debug)]
pub(crate) struct Filled {
    pub(crate) policies: PolicySet,
    /// What a table calls them.
    pub(crate) labels: PerSlot<String>,
}

/// The requested runs.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) runs: Vec<Filled>,
    /// The slots that a table shows: those that were typed, or readahead.
    pub(crate) shown: PerSlot<bool>,
}

impl Chosen {
    /// What fills the slots of the first run that a table does not show, as it would be typed.
    pub(crate) fn others(&self, decides: impl Fn(usize) -> bool) -> Option<String> {
        let one = self.runs.first()?;
        let others = (0..SLOTS.len()).filter(|&slot| !self.shown[slot] && decides(slot));
        let others: Vec<_> =
            others.map(|slot| format!("{}={}", SLOTS[slot], one.labels[slot])).collect();
        (!others.is_empty()).then(|| others.join(" "))
    }
}

/// The most runs that one command compares.
const RUNS_MAX: usize = 1_024;

/// Sets of policies for all slots; slots that were not typed use the machine's kernel. `place`
/// names the position of a key of the machine.
pub(crate) fn sets(
    choice: &PolicyChoice,
    kernel: &Kernel,
    place: impl Fn(&str) -> String,
) -> Result<Chosen> {
    let typed = Typed::of(choice)?;
    let own = [
        &kernel.readahead,
        &kernel.flush,
        &kernel.controller,
        &kernel.throttle,
        &kernel.elevator,
        &kernel.dispatch,
        &kernel.reclaim,
    ];
    for (slot, text) in own.into_iter().enumerate() {
        if typed.texts[slot].is_none() {
            let texts =
                std::array::from_fn(|other| if other == slot { text } else { DEFAULTS[other] });
            fill(texts).with_context(|| place(&format!("kernel.{}", SLOTS[slot])))?;
        }
    }
    let own = own.map(String::as_str);
    typed.explain(own, |_| true, "the machine's kernel has it");
    let runs = typed.product(own)?;
    let runs = runs.into_iter().map(|texts| Ok(fill(texts)?)).collect::<Result<_>>()?;
    let nothing = typed.texts.iter().all(Option::is_none);
    let shown = |slot| typed.is_filled(slot) || (nothing && slot == READAHEAD);
    Ok(Chosen { runs, shown: std::array::from_fn(shown) })
}

/// Policies for a job on files of this machine, below which a kernel orders requests; `own` stands
/// where nothing was typed. A job that only reads has no use for those that decide about writes.
pub(crate) fn of_run(choice: &PolicyChoice, own: PerSlot<&str>, writes: bool) -> Result<Chosen> {
    let typed = Typed::of(choice)?;
    let decides = |slot| match writes {
        true => slot != ELEVATOR,
        false => slot == READAHEAD || slot == DISPATCH,
    };
    if let Some(slot) = (0..SLOTS.len()).find(|&slot| !decides(slot) && typed.is_filled(slot)) {
        let why = match slot {
            ELEVATOR => "the kernel below orders requests",
            _ => "the job only reads",
        };
        let name = SLOTS[slot];
        bail!(
            Complaint::new(format!("{why}: in `run` the slot '{name}' has nothing to decide"))
                .hint("`forebay simulate` takes policies for all slots")
        );
    }
    typed.explain(own, decides, "today's kernel has it");
    let runs = typed.product(own)?.into_iter().map(|texts| Ok(fill(texts)?));
    let runs = runs.collect::<Result<_>>()?;
    let shown = |slot| slot == READAHEAD || slot == DISPATCH || typed.is_filled(slot);
    Ok(Chosen { runs, shown: std::array::from_fn(shown) })
}

/// Policies for a block trace, which enters below the page cache: `own` is the elevator if none was
/// typed.
pub(crate) fn of_block_trace(choice: &PolicyChoice, own: &str) -> Result<Vec<Filled>> {
    let typed = Typed::of(choice)?;
    let decides = |slot| slot == ELEVATOR;
    if let Some(slot) = (0..SLOTS.len()).find(|&slot| !decides(slot) && typed.is_filled(slot)) {
        let name = SLOTS[slot];
        bail!(
            Complaint::new(format!(
                "the trace enters at the block layer, where the slot '{name}' has nothing to decide"
            ))
            .hint("--layer cache replays it through the page cache")
        );
    }
    let mut texts = DEFAULTS;
    texts[ELEVATOR] = own;
    typed.explain(texts, decides, "the machine's kernel has it");
    typed.product(texts)?.into_iter().map(|texts| Ok(fill(texts)?)).collect()
}

/// Policies for a server of disks: the kernels below it order requests.
pub(crate) fn of_server(policy: &[String]) -> Result<PolicySet> {
    let choice = PolicyChoice { policy: policy.to_vec(), compare: Vec::new() };
    let typed = Typed::of(&choice)?;
    let decides = |slot| SLOTS[slot] != "elevator";
    if let Some(slot) = (0..SLOTS.len()).find(|&slot| !decides(slot) && typed.is_filled(slot)) {
        let name = SLOTS[slot];
        bail!(
            Complaint::new(format!("in `serve` the slot '{name}' has nothing to decide"))
                .hint("its slots are readahead, flush, controller, throttle, dispatch and reclaim")
        );
    }
    let own =
        [SERVED_READAHEAD, "linux-6", SERVED_CONTROLLER, "paced", "none", "adaptive", "two-lists"];
    typed.explain(own, decides, "the default of `serve`");
    let run = typed.product(own)?.remove(0);
    let policies = fill(run)?.policies;
    if policies.readahead.to_string().contains("folios=1") {
        bail!(
            Complaint::new("`serve` zeroes and trims single pages, which folios=on has none of")
                .hint("without it the windows are the same")
        );
    }
    Ok(policies)
}

/// Windows of 8 MiB hide 10 ms of a store that gives 800 MB/s.
const SERVED_READAHEAD: &str = "linux-6.18:max=2048";

/// A store of 20 MB/s has a second of dirty pages and 25 ms in flight, even before its drain is
/// known: a flush takes about a second, and a read waits behind few writes.
const SERVED_CONTROLLER: &str = "drain:start_mib=16,floor_mib=16,queue_ms=25";

/// The readahead policy of `SLOT=NAME` in a command that has no other slot.
pub(crate) fn readahead_alone(typed: &str) -> Result<readahead::Spec> {
    let (slot, value) = slot_value(typed)?;
    if slot != READAHEAD {
        let what =
            "`plan` shows what a readahead policy brings in, and takes no policy of the slot";
        bail!(
            Complaint::new(format!("{what} '{}'", SLOTS[slot]))
                .hint("`forebay simulate` takes policies for all slots")
        );
    }
    Ok(spec::<dyn Readahead>(value)?)
}

/// The typed policies: the texts of each slot, and which slots are compared, in the order of
/// typing.
struct Typed {
    texts: PerSlot<Option<Vec<String>>>,
    compared: Vec<usize>,
}

impl Typed {
    fn of(choice: &PolicyChoice) -> Result<Self> {
        let mut typed = Self { texts: Default::default(), compared: Vec::new() };
        for text in &choice.policy {
            let (slot, value) = slot_value(text)?;
            typed.take(slot, vec![value.to_owned()])?;
        }
        for text in &choice.compare {
            let (slot, list) = slot_value(text)?;
            let values = listed(list);
            for (place, value) in values.iter().enumerate() {
                if values[..place].contains(value) {
                    let what = format!("--compare {}: '{value}' is given twice", SLOTS[slot]);
                    bail!(Complaint::new(what).hint("each policy is run once"));
                }
            }
            typed.take(slot, values)?;
            typed.compared.push(slot);
        }
        Ok(typed)
    }

    fn take(&mut self, slot: usize, texts: Vec<String>) -> Result<()> {
        if self.is_filled(slot) {
            let name = SLOTS[slot];
            bail!(
                Complaint::new(format!("slot '{name}' is filled more than once"))
                    .hint(format!("--compare {name}=A,B,C runs the job once with each policy"))
            );
        }
        self.texts[slot] = Some(texts);
        Ok(())
    }

    fn is_filled(&self, slot: usize) -> bool {
        self.texts[slot].is_some()
    }

    /// Under `--verbose`, the policies of the slots for which nothing was typed.
    fn explain(&self, own: PerSlot<&str>, decides: impl Fn(usize) -> bool, why: &str) {
        for slot in (0..SLOTS.len()).filter(|&slot| decides(slot) && !self.is_filled(slot)) {
            messages::detail(|| {
                format!("policy: {}={}, not chosen: {why}", SLOTS[slot], own[slot])
            });
        }
    }

    /// Every combination of the compared policies; the slot that was typed last varies fastest.
    fn product<'a>(&'a self, own: PerSlot<&'a str>) -> Result<Vec<PerSlot<&'a str>>> {
        let texts = |slot: usize| self.texts[slot].as_deref().unwrap_or_default();
        let counts = self.compared.iter().map(|&slot| texts(slot).len());
        let count = counts.fold(1usize, usize::saturating_mul);
        if count > RUNS_MAX {
            bail!(
                Complaint::new(format!("the policies to compare make {count} runs"))
                    .hint(format!("at most {RUNS_MAX} are made at once"))
            );
        }
        let one = std::array::from_fn(|slot| texts(slot).first().map_or(own[slot], String::as_str));
        let mut runs = vec![one];
        for &slot in &self.compared {
            let with = |run: PerSlot<&'a str>, text: &'a str| {
                let mut run = run;
                run[slot] = text;
                run
            };
            let all = runs.into_iter();
            runs =
                all.flat_map(|run| texts(slot).iter().map(move |text| with(run, text))).collect();
        }
        Ok(runs)
    }
}

/// Texts that are in order in every slot.
const DEFAULTS: PerSlot<&str> = ["off", "linux-6", "fixed", "off", "none", "deferred", "two-lists"];

fn fill(texts: PerSlot<&str>) -> Result<Filled, Complaint> {
    let [readahead, flush, controller, throttle, elevator, dispatch, reclaim] = texts;
    let (flush, flush_label) = flush_spec(flush)?;
    let policies = PolicySet {
        readahead: spec(readahead)?,
        flush,
        controller: spec(controller)?,
        throttle: spec(throttle)?,
        elevator: spec(elevator)?,
        dispatch: spec(dispatch)?,
        reclaim: spec(reclaim)?,
        own: OwnPolicies::default(),
    };
    let labels = [
        policies.readahead.to_string(),
        flush_label,
        policies.controller.to_string(),
        policies.throttle.to_string(),
        policies.elevator.to_string(),
        policies.dispatch.to_string(),
        policies.reclaim.to_string(),
    ];
    Ok(Filled { policies, labels })
}

/// A policy; an error names its slot.
fn spec<T: Slot + ?Sized>(text: &str) -> Result<Spec<T>, Complaint> {
    Spec::<T>::parse(text).map_err(|error| {
        let name = text.split(':').next().unwrap_or_default();
        let place = match &error {
            SpecError::UnknownPolicy { .. } => None,
            SpecError::UnknownParameter { .. } | SpecError::Contradiction { .. } => {
                Some(T::NAME.to_owned())
            }
            SpecError::BadValue { .. } | SpecError::Twice { .. } => {
                Some(format!("{}={name}", T::NAME))
            }
        };
        let complaint = Complaint::from(error);
        match place {
            Some(place) => complaint.at(&place),
            None => complaint,
        }
    })
}

/// The flush rule that also takes the nine integers of its file in /proc.
const BDFLUSH: &str = "bdflush-2.2.19";

/// A flush rule and what a table calls it. Behind `bdflush-2.2.19:` may stand the nine integers as
/// tuning guides print them.
fn flush_spec(text: &str) -> Result<(flush::Spec, String), Complaint> {
    let is_line =
        |line: &str| line.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-');
    match text.split_once(':') {
        Some((BDFLUSH, line)) if is_line(line) && !line.contains('=') => {
            let vector = Vector::strict(line).map_err(|error| {
                let fields: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
                Complaint::new(error.to_string())
                    .at(&format!("flush={BDFLUSH}"))
                    .hint(format!("the nine are {}", fields.join(" ")))
            })?;
            let pairs = FIELDS.iter().zip(vector.0);
            let pairs = pairs.map(|(field, value)| format!("{}={value}", field.name));
            let keyed = pairs.collect::<Vec<_>>().join(",");
            Ok((spec(&format!("{BDFLUSH}:{keyed}"))?, format!("{BDFLUSH}:{vector}")))
        }
        Some(_) | None => {
            let flush: flush::Spec = spec(text)?;
            let label = flush.to_string();
            Ok((flush, label))
        }
    }
}

fn slot_value(typed: &str) -> Result<(usize, &str)> {
    let Some((name, value)) = typed.split_once('=') else {
        bail!(
            Complaint::new(format!("a policy is chosen as SLOT=NAME, not '{typed}'"))
                .hint("for example readahead=linux-6.18; `forebay policies` lists them")
        );
    };
    let Some(slot) = SLOTS.iter().position(|known| *known == name) else {
        bail!(
            Complaint::new(format!("no slot is named '{name}'")).nearest(name, SLOTS.into_iter())
        );
    };
    Ok((slot, value))
}

/// The policies of a comma-separated list. A piece that sets a parameter (`max=32`) and names no
/// policy belongs to the policy before it.
pub(crate) fn listed(typed: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for piece in typed.split(',') {
        let is_parameter = piece.contains('=') && !piece.contains(':');
        match names.last_mut() {
            // The first parameter of a policy stands behind a colon.
            Some(last) if is_parameter && last.contains(':') => *last = format!("{last},{piece}"),
            Some(_) | None => names.push(piece.to_owned()),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: PerSlot<&str> = ["r", "f", "c", "t", "e", "d", "m"];

    fn choice(policy: &[&str], compare: &[&str]) -> PolicyChoice {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        PolicyChoice { policy: owned(policy), compare: owned(compare) }
    }

    #[test]
    fn parameters_stay_with_their_policy_in_a_list() {
        assert_eq!(
            listed("off,request-size:max=32,previous=off,linux-6.18"),
            ["off", "request-size:max=32,previous=off", "linux-6.18"]
        );
    }

    #[test]
    fn the_slot_that_was_typed_last_varies_fastest() {
        let choice = choice(&["flush=linux-6"], &["throttle=a,b", "readahead=x,y"]);
        let typed = Typed::of(&choice).unwrap();
        let runs = typed.product(OWN).unwrap();
        let expected = [("x", "a"), ("y", "a"), ("x", "b"), ("y", "b")];
        let expected = expected
            .map(|(readahead, throttle)| [readahead, "linux-6", "c", throttle, "e", "d", "m"]);
        assert_eq!(runs, expected);
    }

    #[test]
    fn nothing_typed_is_one_run() {
        let typed = Typed::of(&choice(&[], &[])).unwrap();
        assert_eq!(typed.product(OWN).unwrap(), [OWN]);
    }

    #[test]
    fn products_have_an_end() {
        let many =
            |name: &str| (1..=64).map(|n| format!("{name}{n}")).collect::<Vec<_>>().join(",");
        let one = format!("readahead={}", many("fixed:max="));
        let other = format!("throttle={}", many("paced:limit_ms="));
        let choice = choice(&[], &[&one, &other]);
        let typed = Typed::of(&choice).unwrap();
        assert!(typed.product(OWN).is_err());
    }

    #[test]
    fn nine_integers_are_the_same_rule_as_nine_parameters() {
        let line = "bdflush-2.2.19:100 1200 128 512 15 5000 500 1884 2";
        let keyed = "bdflush-2.2.19:nfract=100,ndirty=1200,nrefill=128,nref_dirt=512,interval=15,\
                     age_buffer=5000,age_super=500,dummy1=1884,dummy2=2";
        let (spec, label) = flush_spec(line).unwrap();
        assert_eq!((spec.to_string().as_str(), label.as_str()), (keyed, line));
        assert_eq!(spec.build().knobs(), flush_spec(keyed).unwrap().0.build().knobs());
    }

    #[test]
    fn texts_that_stand_in_are_in_order() {
        assert!(fill(DEFAULTS).is_ok());
    }
}

//! A policy by name and parameters, as a user types it: `request-size:max=32,previous=off`.
//!
//! The path has several slots; each is filled by one policy of the slot's table.
//!
//! ```text
//!   slot         table                          a policy decides
//!   readahead    readahead::POLICIES            which pages to fetch
//!   flush        flush::POLICIES                when and how much to write
//!   controller   control::POLICIES              how the flush rule's knobs follow the load
//!   throttle     throttle::POLICIES             how long a writer waits
//!   reclaim      reclaim::POLICIES              which pages leave when memory is short
//!   elevator     elevator::POLICIES             in which order a device works
//!   dispatch     dispatch::POLICIES             which task runs while it works
//!   fill         packed::POLICIES               what is decoded of a packed file, and when
//! ```

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// What a policy of a slot is, and the table that names them all.
pub trait Slot: 'static {
    /// What a user types before the `=`.
    const NAME: &'static str;

    /// Every policy of the slot.
    fn policies() -> &'static [Policy<Self>];

    /// Why values that are each in range cannot stand side by side.
    fn contradiction(_policy: &'static str, _values: &Values<'_>) -> Option<&'static str> {
        None
    }
}

/// One line of the table of policies.
pub struct Policy<T: ?Sized> {
    /// What a user types.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// Makes the policy's state from the values of its parameters.
    pub(crate) build: fn(&Values<'_>) -> Box<T>,
}

/// A number that a policy takes.
#[derive(Debug)]
pub struct Parameter {
    /// What a user types before the `=`.
    pub name: &'static str,
    /// The value if none is given.
    pub default: u64,
    /// The least value.
    pub low: u64,
    /// The greatest value; a parameter from 0 to 1 may be typed as `off` and `on`.
    pub high: u64,
    /// Its meaning, with its unit.
    pub summary: &'static str,
}

impl Parameter {
    /// A number from the first to the last of a range.
    pub(crate) const fn new(
        name: &'static str,
        default: u64,
        (low, high): (u64, u64),
        summary: &'static str,
    ) -> Self {
        Self { name, default, low, high, summary }
    }
}

/// A policy and the values of its parameters.
pub struct Spec<T: Slot + ?Sized> {
    policy: &'static Policy<T>,
    values: Vec<u64>,
    given: Vec<bool>,
}

/// Errors in a typed policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No policy of the slot has this name.
    UnknownPolicy {
        /// The slot.
        slot: &'static str,
        /// The text found.
        given: String,
        /// What could have been typed.
        known: Vec<&'static str>,
    },
    /// The policy has no such parameter; it has these.
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// The text found.
        given: String,
        /// What could have been typed.
        known: Vec<&'static str>,
    },
    /// The value is not a number in the range.
    BadValue {
        /// The parameter.
        parameter: &'static str,
        /// The text found; none if the parameter's name had no value.
        given: Option<String>,
        /// The least value.
        low: u64,
        /// The greatest value.
        high: u64,
    },
    /// A parameter has two values.
    Twice {
        /// The parameter.
        parameter: &'static str,
    },
    /// Values that are each in range cannot stand side by side.
    Contradiction {
        /// The policy.
        policy: &'static str,
        /// Why not.
        why: &'static str,
    },
}

/// The values that a policy is built from.
#[derive(Debug)]
pub struct Values<'a> {
    parameters: &'static [Parameter],
    values: &'a [u64],
}

impl Values<'_> {
    /// The value of the parameter `name`, which the policy has declared.
    pub(crate) fn of(&self, name: &str) -> u64 {
        let found = self.parameters.iter().position(|parameter| parameter.name == name);
        self.values[found.expect("a policy reads only parameters that it declares")]
    }

    /// The value of a parameter from 0 to 1.
    pub(crate) fn on(&self, name: &str) -> bool {
        self.of(name) == 1
    }
}

impl<T: Slot + ?Sized> Spec<T> {
    /// Reads `NAME` or `NAME:KEY=VALUE,KEY=VALUE`.
    ///
    /// # Errors
    /// Names the part that is not a policy, not a parameter or not a value in range.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let policy = T::policies().iter().find(|policy| policy.name == name).ok_or_else(|| {
            SpecError::UnknownPolicy {
                slot: T::NAME,
                given: name.to_string(),
                known: T::policies().iter().map(|policy| policy.name).collect(),
            }
        })?;
        let values = policy.parameters.iter().map(|parameter| parameter.default).collect();
        let mut spec = Self { policy, values, given: alloc::vec![false; policy.parameters.len()] };
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            spec.set(setting)?;
        }
        match T::contradiction(policy.name, &spec.values()) {
            Some(why) => Err(SpecError::Contradiction { policy: policy.name, why }),
            None => Ok(spec),
        }
    }

    /// Whether the user gave a parameter; none if the policy has none of this name.
    pub fn gives(&self, name: &str) -> Option<bool> {
        let place = self.policy.parameters.iter().position(|parameter| parameter.name == name)?;
        Some(self.given[place])
    }

    /// Sets a parameter unless the user gave it or the policy has none of this name.
    ///
    /// # Errors
    /// The value is out of the parameter's range.
    pub fn or(mut self, name: &str, value: u64) -> Result<Self, SpecError> {
        let place = self.policy.parameters.iter().position(|parameter| parameter.name == name);
        if let Some(place) = place.filter(|place| !self.given[*place]) {
            let parameter = &self.policy.parameters[place];
            if !(parameter.low..=parameter.high).contains(&value) {
                return Err(SpecError::BadValue {
                    parameter: parameter.name,
                    given: Some(value.to_string()),
                    low: parameter.low,
                    high: parameter.high,
                });
            }
            self.values[place] = value;
        }
        Ok(self)
    }

    /// Sets a value that the user did not give; a value beyond the parameter's range becomes its
    /// nearest end. `value` sees the parameter; a policy without it is unchanged.
    #[must_use]
    pub(crate) fn unless_given(
        mut self,
        name: &str,
        value: impl FnOnce(&Parameter) -> u64,
    ) -> Self {
        let place = self.policy.parameters.iter().position(|parameter| parameter.name == name);
        if let Some(place) = place.filter(|place| !self.given[*place]) {
            let parameter = &self.policy.parameters[place];
            self.values[place] = value(parameter).clamp(parameter.low, parameter.high);
        }
        self
    }

    /// A fresh state of the policy.
    pub fn build(&self) -> Box<T> {
        (self.policy.build)(&self.values())
    }

    /// The line of the table.
    pub fn policy(&self) -> &'static Policy<T> {
        self.policy
    }

    fn values(&self) -> Values<'_> {
        Values { parameters: self.policy.parameters, values: &self.values }
    }

    fn set(&mut self, setting: &str) -> Result<(), SpecError> {
        let (key, value) = match setting.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (setting, None),
        };
        let parameters = self.policy.parameters;
        let index =
            parameters.iter().position(|parameter| parameter.name == key).ok_or_else(|| {
                SpecError::UnknownParameter {
                    policy: self.policy.name,
                    given: key.to_string(),
                    known: parameters.iter().map(|parameter| parameter.name).collect(),
                }
            })?;
        let parameter = &parameters[index];
        if self.given[index] {
            return Err(SpecError::Twice { parameter: parameter.name });
        }
        let number = match value {
            None | Some("on") if parameter.high == 1 => Some(1),
            Some("off") if parameter.high == 1 => Some(0),
            given => given.and_then(|digits| digits.parse().ok()),
        };
        match number {
            Some(number) if (parameter.low..=parameter.high).contains(&number) => {
                self.values[index] = number;
                self.given[index] = true;
                Ok(())
            }
            Some(_) | None => Err(SpecError::BadValue {
                parameter: parameter.name,
                given: value.map(ToString::to_string),
                low: parameter.low,
                high: parameter.high,
            }),
        }
    }
}

impl<T: Slot + ?Sized> Clone for Spec<T> {
    fn clone(&self) -> Self {
        let (values, given) = (self.values.clone(), self.given.clone());
        Self { policy: self.policy, values, given }
    }
}

impl<T: Slot + ?Sized> fmt::Debug for Spec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={self}", T::NAME)
    }
}

impl<T: ?Sized> fmt::Debug for Policy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<T: Slot + ?Sized> fmt::Display for Spec<T> {
    /// The name and the values that were given, in the form that [`Spec::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name)?;
        let mut separator = ':';
        for (index, parameter) in self.policy.parameters.iter().enumerate() {
            if self.given[index] {
                write!(f, "{separator}{}={}", parameter.name, self.values[index])?;
                separator = ',';
            }
        }
        Ok(())
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy { slot, given, .. } => {
                write!(f, "no {slot} policy is named '{given}'")
            }
            Self::UnknownParameter { policy, given, known } if known.is_empty() => {
                write!(f, "the policy '{policy}' takes no parameters, not '{given}'")
            }
            Self::UnknownParameter { policy, given, known } => {
                write!(f, "the policy '{policy}' has no parameter '{given}', but ")?;
                f.write_str(&known.join(", "))
            }
            Self::Twice { parameter } => write!(f, "'{parameter}' is given twice"),
            Self::Contradiction { policy, why } => write!(f, "the policy '{policy}': {why}"),
            Self::BadValue { parameter, given, low, high } => {
                write!(f, "'{parameter}' takes a number from {low} to {high}, ")?;
                match given {
                    Some(given) => write!(f, "not '{given}'"),
                    None => write!(f, "as in {parameter}={}", 64.clamp(*low, *high)),
                }
            }
        }
    }
}

impl core::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::{Settings, Spec};

    #[test]
    fn a_spec_prints_as_it_was_typed() {
        for text in ["off", "fixed", "fixed:max=8"] {
            assert_eq!(Spec::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_device_sets_what_the_user_left_open() {
        let settings = Settings { ra_pages: Some(256), ..Settings::default() };
        let open = Spec::parse("fixed").unwrap().with(settings);
        let given = Spec::parse("fixed:max=8").unwrap().with(settings);
        assert_eq!((open.values[0], given.values[0]), (256, 8));
    }

    #[test]
    fn a_limit_stands_unless_the_user_gave_one() {
        let max = |text| Spec::parse(text).unwrap().or("max", 8).unwrap().values[0];
        assert_eq!((max("fixed"), max("fixed:max=4")), (8, 4));
        assert!(Spec::parse("fixed").unwrap().or("max", 0).is_err());
        assert!(Spec::parse("off").unwrap().or("max", 0).is_ok());
    }

    #[test]
    fn errors_name_what_was_typed_and_what_could_be() {
        let message = |text| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(message("fixd"), "no readahead policy is named 'fixd'");
        assert_eq!(message("fixed:mx=3"), "the policy 'fixed' has no parameter 'mx', but max");
        assert_eq!(message("fixed:max=0"), "'max' takes a number from 1 to 65536, not '0'");
        let bare = "'max' takes a number from 1 to 65536, as in max=64";
        assert_eq!(message("fixed:max"), bare);
        assert_eq!(message("off:max=0"), "the policy 'off' takes no parameters, not 'max'");
    }
}

//! The chunks that a task of an engine makes.

/// Variables by which engines number tasks, and the number that chunk 1 has.
const VARIABLES: [(&str, u32); 5] = [
    // Workers of HyperQueue run inside of jobs of Slurm.
    ("HQ_TASK_ID", 1),
    ("SLURM_ARRAY_TASK_ID", 1),
    ("JOB_COMPLETION_INDEX", 0),
    ("SGE_TASK_ID", 1),
    ("PBS_ARRAY_INDEX", 1),
];

/// The variable with the number before the first chunk of an array.
pub(crate) const BASE: &str = "NETRIG_CHUNK_BASE";

/// The variable with the number of chunks that each task of an array makes.
pub(crate) const COUNT: &str = "NETRIG_CHUNK_COUNT";

/// The variable with the chunks of a job whose tasks count from 0, separated by commas.
pub(crate) const LIST: &str = "NETRIG_CHUNKS";

/// The most chunks of a task.
const MOST_CHUNKS: u32 = 1_000_000;

/// The environment does not say which chunks the task makes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// No engine has set its variable.
    #[error("which chunk? Give its number, or let an engine set one of {}", task_variables())]
    None,
    /// A variable has a value that is no number.
    #[error("{name} is {value:?}, and not a number")]
    NoNumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The list of chunks is shorter than the number of the task.
    #[error("{LIST} has no entry {task}: {list}")]
    NoEntry {
        /// The number of the task, from 0.
        task: u32,
        /// The list.
        list: String,
    },
    /// A task has too many chunks.
    #[error("{COUNT} is {0}, and a task makes at most {MOST_CHUNKS} chunks")]
    TooMany(u32),
}

/// The names of the variables by which engines number tasks, as a list.
pub fn task_variables() -> String {
    VARIABLES.map(|(name, _)| name).join(", ")
}

/// The chunks of a task, by the variables of its environment. `variable` returns the value of one.
///
/// # Errors
/// [`TaskError`].
pub fn chunks_of_task(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<u32>, TaskError> {
    let number = |name: &'static str, value: &str| {
        value.trim().parse::<u32>().map_err(|_| TaskError::NoNumber { name, value: value.to_owned() })
    };
    for (name, first) in VARIABLES {
        let Some(text) = variable(name).filter(|text| !text.is_empty() && text != "undefined") else {
            continue;
        };
        let task = number(name, &text)?;
        if let (0, Some(list)) = (first, variable(LIST)) {
            let chosen = list.split(',').nth(task as usize).map(str::to_owned);
            return Ok(vec![number(LIST, &chosen.ok_or(TaskError::NoEntry { task, list })?)?]);
        }
        let base = variable(BASE).map_or(Ok(0), |text| number(BASE, &text))?;
        let count = variable(COUNT).map_or(Ok(1), |text| number(COUNT, &text))?.max(1);
        if count > MOST_CHUNKS {
            return Err(TaskError::TooMany(count));
        }
        let first = task.saturating_add(1 - first).saturating_add(base);
        return Ok((first..=first.saturating_add(count - 1)).collect());
    }
    Err(TaskError::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)]) -> Result<Vec<u32>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        chunks_of_task(&variable).map_err(|error| error.to_string())
    }

    #[test]
    fn an_engine_names_the_chunks_of_a_task() {
        assert_eq!(chosen(&[("SLURM_ARRAY_TASK_ID", "9")]), Ok(vec![9]));
        let far = [("SLURM_ARRAY_TASK_ID", "9"), ("NETRIG_CHUNK_BASE", "1000")];
        assert_eq!(chosen(&far), Ok(vec![1009]));
        let several =
            [("SLURM_ARRAY_TASK_ID", "4"), ("NETRIG_CHUNK_BASE", "1000"), ("NETRIG_CHUNK_COUNT", "3")];
        assert_eq!(chosen(&several), Ok(vec![1004, 1005, 1006]));
        assert_eq!(chosen(&[("HQ_TASK_ID", "7"), ("SLURM_ARRAY_TASK_ID", "2")]), Ok(vec![7]));
        let most = u32::MAX.to_string();
        assert_eq!(chosen(&[("JOB_COMPLETION_INDEX", &most)]), Ok(vec![u32::MAX]));
        assert_eq!(chosen(&[("JOB_COMPLETION_INDEX", "0")]), Ok(vec![1]));
        let some = [("JOB_COMPLETION_INDEX", "1"), ("NETRIG_CHUNKS", "4,8,15")];
        assert_eq!(chosen(&some), Ok(vec![8]));
        // Grid Engine sets its variable to this word outside of arrays.
        assert_eq!(chosen(&[("SGE_TASK_ID", "undefined"), ("PBS_ARRAY_INDEX", "2")]), Ok(vec![2]));
    }

    #[test]
    fn variables_that_name_no_chunk_are_refused() {
        let short = [("JOB_COMPLETION_INDEX", "3"), ("NETRIG_CHUNKS", "4,8,15")];
        assert_eq!(chosen(&short).unwrap_err(), "NETRIG_CHUNKS has no entry 3: 4,8,15");
        assert!(chosen(&[("SLURM_ARRAY_TASK_ID", "x")]).unwrap_err().contains("not a number"));
        assert!(chosen(&[]).unwrap_err().contains("which chunk?"));
        let many = [("SLURM_ARRAY_TASK_ID", "1"), ("NETRIG_CHUNK_COUNT", "4294967295")];
        assert!(chosen(&many).unwrap_err().contains("at most 1000000 chunks"));
    }
}

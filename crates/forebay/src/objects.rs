//! What is said of objects that cannot be read.

use forebay_host::backend::{ObjectError, RequestFailure};

use crate::messages::{Complaint, printable};

/// What is wrong, and what can be done about it.
pub(crate) fn complaint(error: &ObjectError) -> Complaint {
    let hint = match error {
        ObjectError::Address { .. } => {
            "s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER@ACCOUNT/KEY, or https://HOST/PATH"
        }
        ObjectError::Open { failure, .. } | ObjectError::Read { failure, .. } => match failure {
            RequestFailure::Missing(_) => "the key is what follows the bucket, letter by letter",
            RequestFailure::Denied(_) => {
                "keys come from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                 GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_KEY; AWS_SKIP_SIGNATURE=true for a \
                 public bucket"
            }
            RequestFailure::Changed => "open it again",
            RequestFailure::NoRanges => "download it, and name the file",
            RequestFailure::Length { .. } | RequestFailure::Other(_) => {
                "AWS_ENDPOINT_URL and AWS_REGION say where S3 is; `curl -I URL` asks a server"
            }
        },
    };
    Complaint::new(printable(&error.to_string()).to_string()).hint(hint)
}

//! CONNECT: the options of a connection and their admission.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::ApiError;

use super::Writer;
use crate::{
    admission::{Attributes, Operation, WriteRecord},
    connect_options,
    request::{Subresource, Target, WriteOptions},
    subresource::Connect,
};

/// The options of a connection that admission has let pass.
#[derive(Default)]
pub(crate) struct AdmittedOptions {
    pub(crate) options: Value,
    pub(crate) record: WriteRecord,
}

impl Writer {
    /// Reads the options of a connection and brings them through admission. As in kube-apiserver this comes before a look at
    /// the object: it need not be there.
    ///
    /// # Errors
    /// 400 for options that cannot be read, and what admission refuses.
    pub(crate) async fn admit_connection(
        &self,
        connect: &dyn Connect,
        target: Target,
        query: &[(String, String)],
    ) -> Result<AdmittedOptions, ApiError> {
        if query.iter().any(|(name, _)| name == "dryRun") {
            return Err(ApiError::bad_request("dryRun is not supported"));
        }
        let part = Subresource::Connect(connect.name());
        let request = self.request(Operation::Connect, part, target, WriteOptions::default())?;
        let types = &self.info.types;
        let definition = self.info.subresource(connect.name());
        let type_id = definition.and_then(|definition| types.find(definition.type_name.as_deref()?));
        let type_id = type_id.ok_or_else(|| ApiError::internal("the type of the options is not loaded"))?;
        let options = connect_options::read((types, type_id), &request.kind, query)?;
        let mut write = Attributes::new(&Arc::new(request), Some(options), None);
        self.admission.mutate(&mut write).await?;
        self.admission.validate(&write).await?;
        Ok(AdmittedOptions {
            options: write.object.take().unwrap_or_default(),
            record: write.take_record(),
        })
    }
}

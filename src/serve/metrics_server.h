// The metrics server (default 127.0.0.1:10249). Loop thread.
#pragma once

#include <memory>

#include "base/result.h"
#include "serve/metrics_pages.h"
#include "serve/patient_server.h"

namespace serve {

// Serves the pages at the configured address for as long as the returned object lives; nullptr if
// the address is empty. Failures to listen are logged; one is returned with bindAddressHardFail
// only.
base::Result<std::unique_ptr<PatientServer>> start_metrics_server(
    const boost::asio::any_io_executor& executor, const MetricsPages& shown);

}  // namespace serve

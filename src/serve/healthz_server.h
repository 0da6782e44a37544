// The healthz server (default 0.0.0.0:10256). Loop thread.
#pragma once

#include <memory>

#include "base/result.h"
#include "config/options.h"
#include "serve/health_pages.h"
#include "serve/patient_server.h"

namespace serve {

// Serves the pages at the configured address for as long as the returned object lives; nullptr if
// the address is empty. Failures to listen are logged; one is returned with bindAddressHardFail
// only.
base::Result<std::unique_ptr<PatientServer>> start_healthz_server(
    const boost::asio::any_io_executor& executor, const HealthPages& shown,
    const config::Config& config);

}  // namespace serve

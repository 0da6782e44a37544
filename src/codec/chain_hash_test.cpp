#include "codec/chain_hash.h"

#include <gtest/gtest.h>

namespace codec {
namespace {

TEST(ChainHash, NamesChainsAsKubernetesDoes) {
  EXPECT_EQ(view(chain_hash("ns1/svc1:p80tcp")), "XPGD46QRK7WJZT7O");
  EXPECT_EQ(view(chain_hash("ns2/svc2:p8080tcp")), "2VJB64SDSIJUP5T6");
  EXPECT_EQ(view(chain_hash("ns1/svc1:p80tcp10.180.0.1:80")), "SXIVWICOYRO3J4NJ");
  EXPECT_EQ(view(chain_hash("default/kubernetes:httpstcp")), "NPX46M4PTMTKRN6Y");
  EXPECT_EQ(view(chain_hash("kube-system/kube-dns:dnsudp")), "TCOU7JCQXEZGVUNU");
  EXPECT_EQ(view(chain_hash("ns1/nptcp")), "CBUSDVYBRBZ43FMD");
  EXPECT_EQ(view(chain_hash("ns1/aff:sctpsctp")), "4IYD3QHCOG3Y2MYR");
  EXPECT_EQ(view(chain_hash("ns1/six:httptcp[fd00:10:244::5]:8080")), "2D5HNI6BOYI2LDO5");
}

}  // namespace
}  // namespace codec

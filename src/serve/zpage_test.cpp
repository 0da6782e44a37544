#include "serve/zpage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/flagz.h"

namespace serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

http::Answer ask(const std::string& accept) {
  return show_zpage(flagz({{"cleanup", "false"}, {"v", "2"}}), accept);
}

std::string object(const std::string& type, const std::string& version) {
  return "application/" + type + ";v=" + version + ";g=config.k8s.io;as=Flagz";
}

TEST(ZPage, PeopleGetText) {
  for (const auto* accept : {"", "*/*", "text/plain", "text/html,*/*;q=0.8", "text/plain;q=0.5"}) {
    const auto shown = ask(accept);
    EXPECT_THAT(shown.headers, ElementsAre(Pair("Content-Type", "text/plain; charset=utf-8")));
    EXPECT_EQ(shown.body,
              "\nkube-proxy flagz\n"
              "Warning: This endpoint is not meant to be machine parseable, has no formatting "
              "compatibility guarantees and is for debugging purposes only.\n"
              "cleanup:false\nv:2\n");
  }
}

TEST(ZPage, WhoAsksForTheObjectGetsIt) {
  const auto json = ask(object("json", "v1beta1"));
  EXPECT_THAT(
      json.headers,
      ElementsAre(Pair("Content-Type", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz")));
  EXPECT_EQ(json.body, R"({"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":)"
                       R"({"name":"kube-proxy"},"flags":{"cleanup":"false","v":"2"}})"
                       "\n");
  EXPECT_EQ(ask(object("yaml", "v1beta1")).body,
            "apiVersion: config.k8s.io/v1beta1\nflags:\n  cleanup: \"false\"\n  v: \"2\"\n"
            "kind: Flagz\nmetadata:\n  name: kube-proxy\n");
}

TEST(ZPage, TheOldVersionComesWithAWarning) {
  EXPECT_THAT(ask(object("json", "v1alpha1")).headers,
              ElementsAre(Pair("Content-Type", HasSubstr("v=v1alpha1")),
                          Pair("Warning",
                               "299 - \"This version of the flagz endpoint is deprecated. Please "
                               "use a newer version.\"")));
}

TEST(ZPage, TheBestThatThereIsCounts) {
  const auto type = [](const std::string& accept) { return ask(accept).headers.at(0).second; };
  EXPECT_THAT(type(object("json", "v9") + "," + object("json", "v1beta1")), HasSubstr("v1beta1"));
  EXPECT_THAT(type(object("json", "v9") + ", text/plain"), HasSubstr("text/plain"));
  EXPECT_THAT(type("text/plain," + object("json", "v1beta1")), HasSubstr("text/plain"));
  EXPECT_THAT(type(object("json", "v1alpha1") + ";q=0.1," + object("yaml", "v1beta1")),
              HasSubstr("application/yaml"));
}

TEST(ZPage, NothingElseIsAcceptable) {
  for (const std::string& accept :
       {std::string("application/json"), std::string("application/*"), std::string("text/html"),
        std::string(";;;"), object("json", "v1"), object("cbor", "v1beta1"),
        std::string("application/json;v=v1beta1;g=config.k8s.io;as=Statusz"),
        std::string("application/json;v=v1beta1;g=other;as=Flagz")}) {
    const auto shown = ask(accept);
    EXPECT_EQ(shown.status, 406) << accept;
    EXPECT_THAT(shown.headers, ElementsAre(Pair("Content-Type", "application/json")));
    EXPECT_THAT(shown.body, HasSubstr(R"("message":"only the following media types are accepted: )"
                                      R"(application/json, application/yaml, text/plain")"));
  }
}

}  // namespace
}  // namespace serve

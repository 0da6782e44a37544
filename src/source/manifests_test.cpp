#include "source/manifests.h"

#include <sys/stat.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source/test_folder.h"

namespace source {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string service(const std::string& name, const std::string& ip = "10.0.0.1") {
  return "apiVersion: v1\nkind: Service\nmetadata:\n  name: " + name +
         "\nspec:\n  clusterIP: " + ip + "\n  ports:\n  - port: 80\n---\n";
}

std::string slice(const std::string& name, const std::string& service,
                  const std::string& ip = "10.1.0.1") {
  return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: " + name +
         "\n  labels: {kubernetes.io/service-name: " + service +
         "}\naddressType: IPv4\nendpoints:\n- addresses: [" + ip + "]\nports:\n- port: 8080\n---\n";
}

std::string endpoints(const std::string& name, const std::string& ip = "10.2.0.1") {
  return "apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: " + name +
         "\nsubsets:\n- addresses: [{ip: " + ip + "}]\n  ports: [{port: 8080}]\n---\n";
}

struct Describe {
  std::string operator()(const std::shared_ptr<const model::Service>& service) const {
    return "service " + service->key.str() + " " +
           (service->cluster_ips[0] ? service->cluster_ips[0]->str() : "-");
  }
  std::string operator()(const std::shared_ptr<const model::EndpointSlice>& slice) const {
    return "slice " + slice->service.str() + " " + slice->name;
  }
  std::string operator()(const std::shared_ptr<const model::Node>& node) const {
    return "node " + node->name;
  }
  std::string operator()(const std::shared_ptr<const model::ServiceCidr>& cidr) const {
    return "cidr " + cidr->name;
  }
  std::string operator()(const model::ServiceDeleted& gone) const {
    return "-service " + gone.key.str();
  }
  std::string operator()(const model::SliceDeleted& gone) const {
    return "-slice " + gone.key.service.str() + " " + gone.key.name;
  }
  std::string operator()(const model::NodeDeleted& gone) const { return "-node " + gone.name; }
  std::string operator()(const model::ServiceCidrDeleted& gone) const {
    return "-cidr " + gone.name;
  }
};

// A folder with its Manifests; paths in reports are cut to the name of the file.
class ManifestsTest : public testing::Test {
 protected:
  // As the daemon does: looks again if it is asked to.
  std::vector<std::string> rescan(const std::set<FileId>& being_written = {}) {
    std::vector<std::string> changes = rescan_once(being_written);
    if (!look_again_) return changes;
    const std::vector<std::string> first_reports = std::exchange(reports_, {});
    now_ += *look_again_;
    const std::vector<std::string> more = rescan_once(being_written);
    EXPECT_EQ(look_again_, std::nullopt);
    changes.insert(changes.end(), more.begin(), more.end());
    reports_.insert(reports_.begin(), first_reports.begin(), first_reports.end());
    return changes;
  }
  std::vector<std::string> rescan_once(const std::set<FileId>& being_written = {}) {
    return take(manifests_.rescan(being_written, now_));
  }
  std::vector<std::string> take(const LoadReport& report) {
    look_again_ = report.look_again;
    reports_.clear();
    for (const auto& item : report.reports) {
      std::string text = item.str();
      for (size_t at = 0; (at = text.find(folder_.path() + "/", at)) != std::string::npos;) {
        text.erase(at, folder_.path().size() + 1);
      }
      reports_.push_back(text);
    }
    std::vector<std::string> out;
    out.reserve(report.changes.size());
    for (const auto& change : report.changes)
      out.push_back(std::visit(Describe{}, change));
    return out;
  }

  TestFolder folder_;
  Manifests manifests_{folder_.path()};
  Manifests::Clock::time_point now_;
  std::vector<std::string> reports_;
  std::optional<std::chrono::milliseconds> look_again_;
};

TEST_F(ManifestsTest, ReadsTheFilesOfAFolderAndNothingElse) {
  folder_.write("b.yml", service("b"));
  folder_.write("a.yaml", service("a") + slice("a-1", "a"));
  folder_.write("c.json",
                "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Node\",\n\t\"metadata\": "
                "{\"name\": \"n1\"}\n}\n");
  folder_.write("d.txt", service("d"));
  folder_.write(".e.yaml", service("e"));
  fs::create_directory(folder_.path("f.yaml"));
  EXPECT_THAT(take(manifests_.load()),
              ElementsAre("node n1", "service default/a 10.0.0.1", "service default/b 10.0.0.1",
                          "slice default/a a-1"));
  EXPECT_THAT(reports_, IsEmpty());
  EXPECT_THAT(rescan(), IsEmpty());
}

TEST_F(ManifestsTest, ReadsASingleFileWhateverItsName) {
  folder_.write("objects", service("a") + service("b"));
  Manifests manifests(folder_.path("objects"));
  EXPECT_EQ(manifests.load().changes.size(), 2u);
}

TEST_F(ManifestsTest, UnpacksLists) {
  folder_.write("a.json", R"({"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"10.0.0.1"}},
    {"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"k"},
     "spec":{"cidrs":["10.96.0.0/12"]}}]})");
  EXPECT_THAT(rescan(), ElementsAre("cidr k", "service default/a 10.0.0.1"));
}

TEST_F(ManifestsTest, TakesOverWhatWasChanged) {
  folder_.write("a.yaml", service("a") + service("b"));
  rescan();
  folder_.write("a.yaml", service("a", "10.0.0.9") + service("b"));
  EXPECT_THAT(rescan(), ElementsAre("service default/a 10.0.0.9"));
  folder_.rename_into_place("a.yaml", service("b"));
  EXPECT_THAT(rescan(), ElementsAre("-service default/a"));
  folder_.remove("a.yaml");
  EXPECT_THAT(rescan(), ElementsAre("-service default/b"));
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, EqualObjectsAreNoChange) {
  folder_.write("a.yaml", service("a"));
  rescan();
  folder_.write("a.yaml", "# a comment\n" + service("a"));
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(take(manifests_.load()), IsEmpty());
  fs::rename(folder_.path("a.yaml"), folder_.path("b.yaml"));
  EXPECT_THAT(rescan(), IsEmpty());
}

TEST_F(ManifestsTest, ASliceThatMovesToAnotherServiceIsDeletedFromTheFirst) {
  folder_.write("a.yaml", slice("s", "a"));
  rescan();
  folder_.write("a.yaml", slice("s", "b"));
  EXPECT_THAT(rescan(), ElementsAre("-slice default/a s", "slice default/b s"));
}

TEST_F(ManifestsTest, FollowsTheSwapOfAMountedConfigMap) {
  folder_.swap_data("..1", "a.yaml", service("a"));
  EXPECT_THAT(rescan(), ElementsAre("service default/a 10.0.0.1"));
  folder_.swap_data("..2", "a.yaml", service("a", "10.0.0.2"));
  EXPECT_THAT(rescan(), ElementsAre("service default/a 10.0.0.2"));
}

TEST_F(ManifestsTest, ABrokenFileKeepsItsLastGoodState) {
  folder_.write("a.yaml", service("a") + service("b"));
  rescan();
  folder_.write("a.yaml", service("a", "10.0.0.9") + "kind: [\n");
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml:11: did not find expected node content while parsing a "
                                    "flow node",
                                    "a.yaml: keeps its last good state until it is mended"));
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, IsEmpty());
  folder_.write("a.yaml", service("a", "10.0.0.9") + service("b"));
  EXPECT_THAT(rescan(), ElementsAre("service default/a 10.0.0.9"));
  EXPECT_THAT(reports_, ElementsAre("a.yaml: good again"));
  rescan();
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, AWrongFieldBreaksAFileToo) {
  folder_.write("a.yaml", service("a"));
  rescan();
  folder_.write("a.yaml", service("b") +
                              "apiVersion: v1\nkind: Service\nmetadata:\n  name: c\n"
                              "spec:\n  ports:\n  - port: 70000\n");
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml:16: Service c: spec.ports[0].port: must be between 1 "
                                    "and 65535, got 70000",
                                    "a.yaml: keeps its last good state until it is mended"));
}

TEST_F(ManifestsTest, AFileThatWasNeverGoodGivesWhatIsFineInIt) {
  folder_.write("a.yaml", service("a") + service("B") + service("c"));
  EXPECT_THAT(rescan(), ElementsAre("service default/a 10.0.0.1", "service default/c 10.0.0.1"));
  EXPECT_THAT(reports_,
              ElementsAre(HasSubstr("a.yaml:13: Service B: metadata.name: must be a DNS")));
  folder_.write("a.yaml", service("a") + "{");
  EXPECT_THAT(rescan(), ElementsAre("-service default/c"));
  folder_.write("a.yaml", service("a"));
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml: good again"));
}

TEST_F(ManifestsTest, ARepeatedKeyIsAnErrorWithItsLine) {
  folder_.write("a.yaml",
                "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {}\nspec: {}\n");
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml:5: Service a: key \"spec\" already set in map"));
}

TEST_F(ManifestsTest, AnUnreadableFileIsToldOnceAndKeepsItsObjects) {
  folder_.write("a.yaml", service("a"));
  rescan();
  folder_.remove("a.yaml");
  fs::create_symlink("nowhere", folder_.path("a.yaml"));
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml: cannot be read: no such file or directory; its "
                                    "objects stay as they were"));
  rescan();
  EXPECT_THAT(reports_, IsEmpty());
  folder_.rename_into_place("a.yaml", service("a"));
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml: good again"));
}

TEST_F(ManifestsTest, APipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(folder_.path("a.yaml").c_str(), 0600), 0);
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml: is not a regular file"));
}

TEST_F(ManifestsTest, AFileThatIsTooLargeIsNotRead) {
  folder_.write("a.yaml", "");
  fs::resize_file(folder_.path("a.yaml"), Manifests::kMaxFileBytes + 1);
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml: is larger than 256 MiB"));
}

TEST_F(ManifestsTest, EmptyFilesAndCommentsAreFine) {
  folder_.write("a.yaml", "");
  folder_.write("b.yaml", "# nothing here\n---\n# nor here\n");
  folder_.write("c.json", " \n");
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, BinaryGarbageIsAnErrorAndNothingMore) {
  std::string garbage;
  for (int i = 0; i < 4096; ++i)
    garbage += static_cast<char>(i * 37 % 256);
  folder_.write("a.yaml", garbage);
  folder_.write("b.json", std::string("{\0\xff", 3));
  folder_.write("c.yaml", service("c"));
  EXPECT_THAT(rescan(), ElementsAre("service default/c 10.0.0.1"));
  EXPECT_EQ(reports_.size(), 2u);
}

TEST_F(ManifestsTest, WindowsLineEndsAreFine) {
  std::string text = service("a");
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.insert(at, "\r");
  }
  folder_.write("a.yaml", text);
  EXPECT_THAT(rescan(), ElementsAre("service default/a 10.0.0.1"));
}

TEST_F(ManifestsTest, AnAliasBombIsAnError) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int n = 0; n < 10; ++n)
      bomb += "*a" + std::to_string(i - 1) + ",";
    bomb += "]\n";
  }
  folder_.write("a.yaml", bomb);
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("too large, aliases included")));
}

TEST_F(ManifestsTest, OtherKindsAreNamedInOneLine) {
  folder_.write("a.yaml",
                "{apiVersion: apps/v1, kind: Deployment}\n---\n"
                "{apiVersion: v1, kind: Pod}\n---\n{apiVersion: v1, kind: Pod}\n");
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml: skipping what a service proxy does not use: "
                                    "apps/v1 Deployment, v1 Pod"));
}

TEST_F(ManifestsTest, TheLastDefinitionWinsAndTheOtherComesBack) {
  folder_.write("a.yaml", service("web", "10.0.0.1"));
  folder_.write("b.yaml", service("web", "10.0.0.2"));
  EXPECT_THAT(rescan(), ElementsAre("service default/web 10.0.0.2"));
  EXPECT_THAT(reports_, ElementsAre("a.yaml:1: Service default/web: is defined again in b.yaml:1, "
                                    "which is the one that counts"));
  folder_.write("b.yaml", service("web", "10.0.0.3"));
  EXPECT_THAT(rescan(), ElementsAre("service default/web 10.0.0.3"));
  EXPECT_THAT(reports_, IsEmpty());
  folder_.remove("b.yaml");
  EXPECT_THAT(rescan(), ElementsAre("service default/web 10.0.0.1"));
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, TheLastDefinitionInOneFileWins) {
  folder_.write("a.yaml", service("web", "10.0.0.1") + service("web", "10.0.0.2"));
  EXPECT_THAT(rescan(), ElementsAre("service default/web 10.0.0.2"));
  EXPECT_EQ(reports_.size(), 1u);
}

TEST_F(ManifestsTest, EndpointsCountOnlyWithoutSlices) {
  folder_.write("a.yaml", service("web") + endpoints("web"));
  EXPECT_THAT(rescan(), ElementsAre("service default/web 10.0.0.1",
                                    "slice default/web web-endpoints-0-ipv4"));
  folder_.write("b.yaml", slice("web-x", "web"));
  EXPECT_THAT(rescan(),
              ElementsAre("-slice default/web web-endpoints-0-ipv4", "slice default/web web-x"));
  folder_.remove("b.yaml");
  EXPECT_THAT(rescan(),
              ElementsAre("-slice default/web web-x", "slice default/web web-endpoints-0-ipv4"));
}

TEST_F(ManifestsTest, FilesThatAreBeingWrittenAreLeftAlone) {
  folder_.write("a.yaml", service("a"));
  folder_.write("b.yaml", service("b"));
  rescan();
  folder_.write("a.yaml", "");
  folder_.write("b.yaml", service("b", "10.0.0.2"));
  folder_.write("c.yaml", service("c"));
  EXPECT_THAT(rescan({stamp_of(folder_.path("a.yaml")).id, stamp_of(folder_.path("c.yaml")).id}),
              ElementsAre("service default/b 10.0.0.2"));
  EXPECT_THAT(rescan(), ElementsAre("-service default/a", "service default/c 10.0.0.1"));
}

TEST_F(ManifestsTest, IfThePathGoesAwayEverythingStays) {
  folder_.write("a.yaml", service("a"));
  rescan();
  fs::rename(folder_.path(), folder_.beside("away"));
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_,
              ElementsAre(HasSubstr("cannot be read: no such file or directory; everything "
                                    "stays as it was")));
  rescan();
  EXPECT_THAT(reports_, IsEmpty());
  fs::create_directory(folder_.path());
  EXPECT_THAT(rescan(), ElementsAre("-service default/a"));
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("good again")));
}

TEST_F(ManifestsTest, AFileThatIsTakenAwayAndWrittenAnewKeepsItsServices) {
  folder_.write("a.yaml", service("a"));
  rescan();
  fs::rename(folder_.path("a.yaml"), folder_.path("a.yaml~"));
  EXPECT_THAT(rescan_once(), IsEmpty());
  EXPECT_EQ(look_again_, 100ms);
  now_ += 50ms;
  folder_.write("a.yaml", service("a", "10.0.0.2"));
  EXPECT_THAT(rescan_once(), ElementsAre("service default/a 10.0.0.2"));
  EXPECT_EQ(look_again_, std::nullopt);
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, AFileThatIsEmptiedAndWrittenAnewKeepsItsServices) {
  folder_.write("a.yaml", service("a"));
  rescan();
  folder_.write("a.yaml", "");
  EXPECT_THAT(rescan_once(), IsEmpty());
  EXPECT_EQ(look_again_, 100ms);
  folder_.write("a.yaml", service("a", "10.0.0.2"));
  EXPECT_THAT(rescan_once(), ElementsAre("service default/a 10.0.0.2"));
  EXPECT_EQ(look_again_, std::nullopt);
}

TEST_F(ManifestsTest, AFileThatStaysAwayOrEmptyIsBelievedAfterAMoment) {
  folder_.write("a.yaml", service("a"));
  folder_.write("b.yaml", service("b"));
  rescan();
  folder_.remove("a.yaml");
  rescan_once();
  now_ += 60ms;
  folder_.write("b.yaml", "");
  EXPECT_THAT(rescan_once(), IsEmpty());
  EXPECT_EQ(look_again_, 40ms);
  now_ += 40ms;
  EXPECT_THAT(rescan_once(), ElementsAre("-service default/a"));
  EXPECT_EQ(look_again_, 60ms);
  now_ += 60ms;
  EXPECT_THAT(rescan_once(), ElementsAre("-service default/b"));
  EXPECT_EQ(look_again_, std::nullopt);
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, EachAbsenceIsCountedOnItsOwn) {
  folder_.write("a.yaml", service("a"));
  rescan();
  for (int i = 0; i < 3; ++i) {
    fs::rename(folder_.path("a.yaml"), folder_.path("a.yaml~"));
    EXPECT_THAT(rescan_once(), IsEmpty());
    EXPECT_EQ(look_again_, 100ms);
    now_ += 60ms;
    fs::rename(folder_.path("a.yaml~"), folder_.path("a.yaml"));
    EXPECT_THAT(rescan_once(), IsEmpty());
  }
}

TEST_F(ManifestsTest, AFileWithoutObjectsIsNotWaitedFor) {
  folder_.write("a.yaml", "# nothing here\n");
  rescan();
  folder_.remove("a.yaml");
  rescan_once();
  EXPECT_EQ(look_again_, std::nullopt);
}

TEST_F(ManifestsTest, AnObjectThatMovesToANewFileIsNoDuplicate) {
  folder_.write("a.yaml", service("a"));
  rescan();
  folder_.remove("a.yaml");
  folder_.write("b.yaml", service("a"));
  EXPECT_THAT(rescan(), IsEmpty());
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, FilesThatComeAndGoAreNoTrouble) {
  folder_.write("b.yaml", service("b"));
  rescan();
  const std::jthread busy([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      folder_.rename_into_place("a.yaml", service("a"));
      folder_.remove("a.yaml");
    }
  });
  for (int i = 0; i < 2000; ++i) {
    now_ += 1s;
    rescan_once();
    ASSERT_THAT(reports_, IsEmpty());
  }
}

TEST_F(ManifestsTest, ALinkToNowhereIsToldAtOnceIfItWasNeverGood) {
  fs::create_symlink("nowhere", folder_.path("a.yaml"));
  EXPECT_THAT(take(manifests_.load(now_)), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("a.yaml: cannot be read: no such file or directory"));
  rescan();
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, ALinkToNowhereForAMomentIsNotTold) {
  TestFolder::put(folder_.beside("real.yaml"), service("a"));
  fs::create_symlink("../real.yaml", folder_.path("a.yaml"));
  rescan();
  fs::remove(folder_.beside("real.yaml"));
  EXPECT_THAT(rescan_once(), IsEmpty());
  EXPECT_THAT(reports_, IsEmpty());
  EXPECT_EQ(look_again_, 100ms);
  TestFolder::put(folder_.beside("real.yaml"), service("a", "10.0.0.2"));
  EXPECT_THAT(rescan_once(), ElementsAre("service default/a 10.0.0.2"));
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ManifestsTest, ASingleFileThatIsAwayForAMomentIsNotTold) {
  folder_.write("objects", service("a"));
  Manifests manifests(folder_.path("objects"));
  manifests.load(now_);
  folder_.remove("objects");
  EXPECT_THAT(take(manifests.rescan({}, now_)), IsEmpty());
  EXPECT_THAT(reports_, IsEmpty());
  EXPECT_EQ(look_again_, 100ms);
  folder_.write("objects", service("a"));
  EXPECT_THAT(take(manifests.rescan({}, now_ + 50ms)), IsEmpty());
  EXPECT_THAT(reports_, IsEmpty());
  folder_.remove("objects");
  take(manifests.rescan({}, now_ + 200ms));
  EXPECT_THAT(reports_, IsEmpty());
  take(manifests.rescan({}, now_ + 300ms));
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("everything stays as it was")));
}

TEST_F(ManifestsTest, APathThatIsNotThereIsTold) {
  Manifests manifests(folder_.path("nowhere"));
  EXPECT_THAT(take(manifests.load()), IsEmpty());
  EXPECT_THAT(reports_, ElementsAre("nowhere: cannot be read: no such file or directory"));
}

}  // namespace
}  // namespace source

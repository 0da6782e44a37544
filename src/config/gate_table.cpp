// The feature gates of Kubernetes v1.36 and what depends on what. Most mean nothing to a proxy, but
// a configuration shared between components may name them, so all are accepted.
#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "config/gates.h"

namespace config {
namespace {

struct Row {
  Stage stage;
  bool by_default;
  bool locked;
  std::string_view names;
};

// clang-format off
constexpr Row kRows[] = {
    {Stage::Beta, true, false,
     "APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO "
     "AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions "
     "CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding "
     "ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz "
     "ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging "
     "DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource "
     "DRAPartitionableDevices DRAResourceClaimDeviceStatus "
     "DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout "
     "DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas "
     "DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown "
     "GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride "
     "InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling "
     "InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax "
     "KubeletEnsureSecretPulledImages KubeletSeparateDiskGC "
     "KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot "
     "LoggingBetaOptions MatchLabelKeysInPodTopologySpread "
     "MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs "
     "MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures "
     "NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching "
     "PLEGOnDemandRelist PodDeletionCost PodLevelResources "
     "PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets "
     "PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile "
     "ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus "
     "ResourceHealthStatusMessage RestartAllContainersOnContainerExits "
     "RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ "
     "ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate "
     "StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob "
     "StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet "
     "StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation "
     "StructuredAuthenticationConfigurationEgressSelector "
     "StructuredAuthenticationConfigurationJWKSMetrics "
     "TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions "
     "TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation "
     "UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO "
     "WatchCacheInitializationPostStartHook WatchList WatchListClient "
     "WindowsGracefulNodeShutdown"},
    {Stage::Beta, false, false,
     "AllBeta ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode "
     "CoordinatedLeaderElection DRADeviceTaintRules "
     "LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet "
     "PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator"},
    {Stage::Alpha, false, false,
     "APIServingWithRoutine AllAlpha AllowUnsafeMalformedObjectDeletion "
     "CBORServingAndStorage CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth "
     "ClientsAllowCBOR ClientsPreferCBOR "
     "CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook "
     "ContainerStopSignals ControllerManagerReleaseLeaderElectionLockOnExit "
     "CrossNamespaceVolumeDataSource DRAListTypeAttributes DRANodeAllocatableResources "
     "DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG GangScheduling "
     "GenericWorkload HPAScaleToZero ImageVolumeWithDigest "
     "InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory "
     "KubeletInUserNamespace LoggingAlphaOptions ManifestBasedAdmissionControlConfig "
     "MemoryQoS MutablePVNodeAffinity NativeHistograms "
     "PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI "
     "PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved "
     "ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi ShardedListAndWatch "
     "StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators "
     "TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions "
     "UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity "
     "WorkloadAwarePreemption WorkloadWithJob"},
    {Stage::Ga, true, false,
     "AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList "
     "InformerResourceVersion MutatingAdmissionPolicy"},
    {Stage::Ga, true, true,
     "APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource "
     "AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache "
     "CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets "
     "ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess "
     "DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation "
     "ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume "
     "InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy "
     "JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI "
     "KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources "
     "KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown "
     "MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount "
     "NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap "
     "OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero "
     "PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution "
     "ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts "
     "RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation "
     "ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy "
     "SELinuxMountReadWriteOncePod SchedulerQueueingHints SeparateTaintEvictionController "
     "ServiceAccountTokenJTI ServiceAccountTokenNodeBinding "
     "ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo "
     "SidecarContainers StreamingCollectionEncodingToJSON "
     "StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration "
     "SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions "
     "UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay"},
    {Stage::Deprecated, false, false,
     "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests "
     "ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1 "
     "KubeletRegistrationGetOnExistsOnly WindowsHostNetwork"},
    {Stage::Deprecated, false, true,
     "AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver "
     "SeparateCacheWatchRPC"},
    {Stage::Deprecated, true, false,
     "DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods "
     "ServiceCIDRStatusFieldWiping StorageNamespaceIndex"},
    {Stage::Deprecated, true, true,
     "AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion"},
};
// clang-format on

constexpr GateDependency kDependencies[] = {
    {"ClusterTrustBundleProjection", "ClusterTrustBundle"},
    {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"},
    {"DRAResourceClaimGranularStatusAuthorization", "DRAResourceClaimDeviceStatus"},
    {"DRAWorkloadResourceClaims", "GenericWorkload"},
    {"ExtendWebSocketsToKubelet", "NodeDeclaredFeatures"},
    {"GangScheduling", "GenericWorkload"},
    {"GracefulNodeShutdownBasedOnPodPriority", "GracefulNodeShutdown"},
    {"InPlacePodLevelResourcesVerticalScaling", "PodLevelResources"},
    {"MatchLabelKeysInPodTopologySpreadSelectorMerge", "MatchLabelKeysInPodTopologySpread"},
    {"ResourceHealthStatusMessage", "ResourceHealthStatus"},
    {"RestartAllContainersOnContainerExits", "ContainerRestartRules"},
    {"RestartAllContainersOnContainerExits", "NodeDeclaredFeatures"},
    {"StaleControllerConsistencyDaemonSet", "AtomicFIFO"},
    {"StaleControllerConsistencyJob", "AtomicFIFO"},
    {"StaleControllerConsistencyReplicaSet", "AtomicFIFO"},
    {"StaleControllerConsistencyStatefulSet", "AtomicFIFO"},
    {"TopologyAwareWorkloadScheduling", "GenericWorkload"},
    {"UnknownVersionInteroperabilityProxy", "APIServerIdentity"},
    {"WindowsGracefulNodeShutdown", "GracefulNodeShutdown"},
    {"WorkloadAwarePreemption", "GangScheduling"},
    {"WorkloadWithJob", "GenericWorkload"},
};

std::vector<Gate> sorted_gates() {
  std::vector<Gate> gates;
  for (const Row& row : kRows) {
    for (const std::string_view name : base::split(row.names, ' ')) {
      gates.push_back({name, row.stage, row.by_default, row.locked});
    }
  }
  std::ranges::sort(gates, {}, &Gate::name);
  return gates;
}

}  // namespace

std::span<const Gate> known_gates() {
  static const std::vector<Gate> gates = sorted_gates();
  return gates;
}

std::span<const GateDependency> gate_dependencies() { return kDependencies; }

}  // namespace config

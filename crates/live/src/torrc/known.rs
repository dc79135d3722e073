//! Names of all options of C tor, so that the parser accepts any torrc of C tor.
//!
//! Source: `tor --list-torrc-options` of 0.4.9.11, and the names that C tor's `config.c` marks as obsolete.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Option,
    Obsolete,
}

/// The status of an option in C tor; `None` if C tor does not know the option.
pub(super) fn known(name: &str) -> Option<Known> {
    let is = |names: &str| names.split_ascii_whitespace().any(|known| known.eq_ignore_ascii_case(name));
    if is(OPTIONS) { Some(Known::Option) } else { is(OBSOLETE).then_some(Known::Obsolete) }
}

const OPTIONS: &str = "
    __AllDirActionsPrivate __AlwaysCongestionControl __ControlPort __DirPort __DisablePredictedCircuits
    __DisableSignalHandlers __DNSPort __ExtORPort __HashedControlSessionPassword __HTTPTunnelPort
    __LeaveStreamsUnattached __MetricsPort __NATDPort __ORPort __OwningControllerFD __OwningControllerProcess
    __ReloadTorrcOnSIGHUP __SbwsExit __SocksPort __TransPort AccelDir AccelName AccountingMax AccountingRule
    AccountingStart Address AddressDisableIPv6 AllowNonRFC953Hostnames AlternateBridgeAuthority
    AlternateDirAuthority AssumeReachable AssumeReachableIPv6 AuthDirBadExit AuthDirBadExitCCs
    AuthDirFastGuarantee AuthDirGuardBWGuarantee AuthDirHasIPv6Connectivity AuthDirInvalid AuthDirInvalidCCs
    AuthDirListBadExits AuthDirListMiddleOnly AuthDirMaxServersPerAddr AuthDirMiddleOnly AuthDirMiddleOnlyCCs
    AuthDirPinKeys AuthDirReject AuthDirRejectCCs AuthDirRejectRequestsUnderLoad AuthDirSharedRandomness
    AuthDirTestEd25519LinkKeys AuthDirTestReachability AuthDirVoteGuard AuthDirVoteGuardBwThresholdFraction
    AuthDirVoteGuardGuaranteeTimeKnown AuthDirVoteGuardGuaranteeWFU AuthDirVoteStableGuaranteeMinUptime
    AuthDirVoteStableGuaranteeMTBF AuthoritativeDirectory AutomapHostsOnResolve AutomapHostsSuffixes
    AvoidDiskWrites BandwidthBurst BandwidthRate Bridge BridgeAuthoritativeDir BridgeDistribution
    BridgePassword BridgeRecordUsageByCountry BridgeRelay CacheDirectory CacheDirectoryGroupReadable
    CellStatistics CircuitBuildTimeout CircuitPadding CircuitPriorityHalflife CircuitsAvailableTimeout
    CircuitStreamTimeout ClientBootstrapConsensusAuthorityDownloadInitialDelay
    ClientBootstrapConsensusAuthorityOnlyDownloadInitialDelay
    ClientBootstrapConsensusFallbackDownloadInitialDelay ClientBootstrapConsensusMaxInProgressTries
    ClientDNSRejectInternalAddresses ClientOnionAuthDir ClientOnly ClientPreferIPv6DirPort
    ClientPreferIPv6ORPort ClientRejectInternalAddresses ClientTransportPlugin ClientUseIPv4 ClientUseIPv6
    CompiledProofOfWorkHash ConfluxClientUX ConfluxEnabled ConnDirectionStatistics ConnectionPadding ConnLimit
    ConsensusParams ConstrainedSockets ConstrainedSockSize ContactInfo ControlPort
    ControlPortFileGroupReadable ControlPortWriteToFile ControlSocket ControlSocketsGroupWritable
    CookieAuthentication CookieAuthFile CookieAuthFileGroupReadable CountPrivateBandwidth DataDirectory
    DataDirectoryGroupReadable DirAllowPrivateAddresses DirAuthority DirAuthorityFallbackRate DirCache
    DirPolicy DirPort DirPortFrontPage DirReqStatistics DisableAllSwap DisableDebuggerAttachment
    DisableNetwork DisableOOSCheck DNSPort DormantCanceledByStartup DormantClientTimeout DormantOnFirstStartup
    DormantTimeoutDisabledByIdleStreams DormantTimeoutEnabled DoSCircuitCreationBurst
    DoSCircuitCreationDefenseTimePeriod DoSCircuitCreationDefenseType DoSCircuitCreationEnabled
    DoSCircuitCreationMinConnections DoSCircuitCreationRate DoSConnectionConnectBurst
    DoSConnectionConnectDefenseTimePeriod DoSConnectionConnectRate DoSConnectionDefenseType
    DoSConnectionEnabled DoSConnectionMaxConcurrentCount DoSRefuseSingleHopClientRendezvous
    DoSStreamCreationBurst DoSStreamCreationDefenseType DoSStreamCreationEnabled DoSStreamCreationRate
    DownloadExtraInfo EnforceDistinctSubnets EntryNodes EntryStatistics ExcludeExitNodes ExcludeNodes
    ExitNodes ExitPolicy ExitPolicyRejectLocalInterfaces ExitPolicyRejectPrivate ExitPortStatistics ExitRelay
    ExtendByEd25519ID ExtORPort ExtORPortCookieAuthFile
    ExtORPortCookieAuthFileGroupReadable ExtraInfoStatistics FallbackDir FamilyId FamilyKeyDirectory
    FascistFirewall FetchDirInfoEarly FetchDirInfoExtraEarly FetchHidServDescriptors FetchServerDescriptors
    FetchUselessDescriptors FirewallPorts GeoIPExcludeUnknown GeoIPFile GeoIPv6File GuardfractionFile
    GuardLifetime HardwareAccel HashedControlPassword HeartbeatPeriod HiddenServiceAllowUnknownPorts
    HiddenServiceDir HiddenServiceDirGroupReadable HiddenServiceEnableIntroDoSBurstPerSec
    HiddenServiceEnableIntroDoSDefense HiddenServiceEnableIntroDoSRatePerSec HiddenServiceExportCircuitID
    HiddenServiceMaxStreams HiddenServiceMaxStreamsCloseCircuit HiddenServiceNonAnonymousMode
    HiddenServiceNumIntroductionPoints HiddenServiceOnionBalanceInstance 
    HiddenServicePort HiddenServicePoWDefensesEnabled HiddenServicePoWQueueBurst HiddenServicePoWQueueRate
    HiddenServiceSingleHopMode HiddenServiceStatistics HiddenServiceVersion HidServAuth HSLayer2Nodes
    HSLayer3Nodes HTTPProxy HTTPProxyAuthenticator HTTPSProxy HTTPSProxyAuthenticator HTTPTunnelPort IPv6Exit
    KeepalivePeriod KeepBindCapabilities KeyDirectory KeyDirectoryGroupReadable KISTSchedRunInterval
    KISTSockBufSizeFactor LearnCircuitBuildTimeout Log LogMessageDomains LogTimeGranularity LongLivedPorts
    MainloopStats MapAddress MaxAdvertisedBandwidth MaxCircuitDirtiness MaxClientCircuitsPending
    MaxConsensusAgeForDiffs MaxHSDirCacheBytes MaxMemInQueues MaxOnionQueueDelay MaxUnparseableDescSizeToLog
    MetricsPort MetricsPortPolicy MiddleNodes MinimalAcceptedServerVersion
    MinMeasuredBWsForAuthToIgnoreAdvertised MinUptimeHidServDirectoryV2 MyFamily NATDPort NewCircuitPeriod
    Nickname NodeFamily NoExec NumCPUs NumDirectoryGuards NumEntryGuards NumPrimaryGuards OfflineMasterKey
    ORPort OutboundBindAddress OutboundBindAddressExit OutboundBindAddressOR OutboundBindAddressPT
    OverloadStatistics PaddingStatistics PathBiasCircThreshold PathBiasDropGuards PathBiasExtremeRate
    PathBiasExtremeUseRate PathBiasNoticeRate PathBiasNoticeUseRate PathBiasScaleThreshold
    PathBiasScaleUseThreshold PathBiasUseThreshold PathBiasWarnRate PathsNeededToBuildCircuits PerConnBWBurst
    PerConnBWRate PidFile ProtocolWarnings PublishHidServDescriptors PublishServerDescriptor
    ReachableAddresses ReachableDirAddresses ReachableORAddresses RecommendedClientVersions
    RecommendedServerVersions RecommendedVersions ReconfigDropsBridgeDescs ReducedCircuitPadding
    ReducedConnectionPadding ReducedExitPolicy ReevaluateExitPolicy RefuseUnknownExits RejectPlaintextPorts
    RelayBandwidthBurst RelayBandwidthRate RephistTrackTime RunAsDaemon SafeLogging SafeSocks Sandbox
    Schedulers ServerDNSAllowBrokenConfig ServerDNSAllowNonRFC953Hostnames ServerDNSDetectHijacking
    ServerDNSRandomizeCase ServerDNSResolvConfFile ServerDNSSearchDomains ServerDNSTestAddresses
    ServerTransportListenAddr ServerTransportOptions ServerTransportPlugin ShutdownWaitLength
    SigningKeyLifetime Socks4Proxy Socks5Proxy Socks5ProxyPassword Socks5ProxyUsername SocksPolicy SocksPort
    SocksTimeout SSLKeyLifetime StrictNodes SyslogIdentityTag TCPProxy TestingAuthDirTimeToLearnReachability
    TestingAuthKeyLifetime TestingAuthKeySlop TestingBridgeBootstrapDownloadInitialDelay
    TestingBridgeDownloadInitialDelay TestingClientConsensusDownloadInitialDelay
    TestingClientDownloadInitialDelay TestingClientMaxIntervalWithoutRequest TestingDirAuthVoteExit
    TestingDirAuthVoteExitIsStrict TestingDirAuthVoteGuard TestingDirAuthVoteGuardIsStrict
    TestingDirAuthVoteHSDir TestingDirAuthVoteHSDirIsStrict TestingDirConnectionMaxStall
    TestingEnableCellStatsEvent TestingEnableConnBwEvent TestingLinkCertLifetime TestingLinkKeySlop
    TestingMinExitFlagThreshold TestingMinFastFlagThreshold TestingMinTimeToReportBandwidth
    TestingServerConsensusDownloadInitialDelay TestingServerDownloadInitialDelay TestingSigningKeySlop
    TestingTorNetwork TestingV3AuthInitialDistDelay TestingV3AuthInitialVoteDelay
    TestingV3AuthInitialVotingInterval TestingV3AuthVotingStartOffset TestSocks TokenBucketRefillInterval
    TrackHostExits TrackHostExitsExpire TransPort TransProxyType TruncateLogFile UnixSocksGroupWritable
    UpdateBridgesFromAuthority UseBridges UseDefaultFallbackDirs UseEntryGuards UseGuardFraction
    UseMicrodescriptors User V3AuthDistDelay V3AuthNIntervalsValid V3AuthoritativeDirectory V3AuthUseLegacyKey
    V3AuthVoteDelay V3AuthVotingInterval V3BandwidthsFile VanguardsLiteEnabled
    VersioningAuthoritativeDirectory VirtualAddrNetworkIPv4 VirtualAddrNetworkIPv6 WarnPlaintextPorts
";

const OBSOLETE: &str = "
    __UseFilteringSSLBufferevents AllowDotExit AllowInvalidNodes AllowSingleHopCircuits AllowSingleHopExits
    AlternateHSAuthority AndroidIdentityTag AuthDirBadDir AuthDirBadDirCCs AuthDirListBadDirs
    AuthDirMaxServersPerAuthAddr AuthDirRejectUnlisted CircuitIdleTimeout ClientAutoIPv6ORPort
    ClientBootstrapConsensusAuthorityOnlyMaxDownloadTries ClientBootstrapConsensusMaxDownloadTries
    CloseHSClientCircuitsImmediatelyOnTimeout CloseHSServiceRendCircuitsImmediatelyOnTimeout
    ControlListenAddress DirListenAddress DisableIOCP DisableV2DirectoryInfo_ DNSListenAddress DynamicDHGroups
    ExcludeSingleHopRelays FallbackNetworkstatusFile FastFirstHopPK FetchV2Networkstatus Group
    HiddenServiceAuthorizeClient HidServAuth HidServDirectoryV2 MaxOnionsPending NamingAuthoritativeDirectory
    NATDListenAddress OptimisticData ORListenAddress PathBiasDisableRate PathBiasMultFactor
    PathBiasScaleFactor PathBiasUseCloseCounts PortForwarding PortForwardingHelper PredictedPortsRelevanceTime
    PreferTunneledDirConns RecommendedPackages RunTesting SchedulerHighWaterMark__ SchedulerLowWaterMark__
    SchedulerMaxFlushCells__ SocksListenAddress StrictEntryNodes StrictExitNodes Support022HiddenServices
    TestingCertMaxDownloadTries TestingConsensusMaxDownloadTries TestingDescriptorMaxDownloadTries
    TestingEnableTbEmptyEvent TestingEstimatedDescriptorPropagationTime TestingMicrodescMaxDownloadTries
    TLSECGroup Tor2webMode Tor2webRendezvousPoints TransListenAddress TunnelDirConns UseEntryGuardsAsDirGuards
    UseFilteringSSLBufferevents UseNTorHandshake UserspaceIOCPBuffers V1AuthoritativeDirectory
    V2AuthoritativeDirectory VoteOnHidServDirectoriesV2 WarnUnsafeSocks
";

// Driver functions that CuPy looks up and the device lacks. Called, they are noted and fail.
extern "C" {
void cpudevice_note_missing(const char *function);
#define CPUDEVICE_MISSING(name) \
  int name() { return cpudevice_note_missing(#name), 801; }
CPUDEVICE_MISSING(cuModuleLoad)
CPUDEVICE_MISSING(cuLaunchCooperativeKernel)
CPUDEVICE_MISSING(cuLinkAddData_v2)
CPUDEVICE_MISSING(cuLinkAddFile_v2)
CPUDEVICE_MISSING(cuLinkComplete)
CPUDEVICE_MISSING(cuLinkCreate_v2)
CPUDEVICE_MISSING(cuLinkDestroy)
}

// Of each function above: its Cython signature as text, its Python form, its entry in the table.
// Included once, inside the namespace of cupy_table.cpp.

template <class T>
constexpr bool optional =
    std::is_same_v<T, OptionalUnsigned *> || std::is_same_v<T, OptionalInt *>;

template <class T>
T from_python(Object value) {
  if constexpr (std::is_same_v<T, Object>)
    return value;
  else if constexpr (std::is_same_v<T, size_t>)
    return PyLong_AsSize_t(value);
  else
    return (T)PyLong_AsLongLong(value);
}

template <class R>
Object to_python(R value) {
  if (PyErr_Occurred()) return nullptr;
  if constexpr (std::is_same_v<R, Object>)
    return value;
  else if constexpr (std::is_floating_point_v<R>)
    return PyFloat_FromDouble(value);
  else
    return PyLong_FromLongLong((long long)value);
}

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<A...>;

  template <class T>
  static std::string name() {
    if (std::is_same_v<T, Object>) return "PyObject *";
    if (std::is_same_v<T, Pointer>) return "intptr_t";
    if (std::is_same_v<T, size_t>) return "size_t";
    if (std::is_same_v<T, unsigned>) return "unsigned int";
    if (std::is_same_v<T, float>) return "float";
    if (std::is_same_v<T, int>) return "int";
    return "struct __pyx_opt_args";
  }
  // As Cython writes it, up to the name of an optional argument's struct.
  static std::string text() {
    std::vector<std::string> types{name<A>()...};
    size_t skip = types.size() - 1;
    if (skip && types[skip] == "struct __pyx_opt_args") skip--;
    std::string found = name<R>() + (std::is_same_v<R, Object> ? "(" : " (");
    for (size_t i = 0; i < types.size(); i++)
      found += (i ? ", " : "") + types[i] + (i == skip ? " __pyx_skip_dispatch" : "");
    return found;
  }
};

// The Python form: positional arguments; the optional one follows the flag in C.
template <auto F>
Object python_form(Object, Object const *values, Py_ssize_t n) {
  using S = Signature<decltype(F)>;
  using Arguments = typename S::Arguments;
  Arguments arguments{};
  OptionalUnsigned given{1, 0};
  auto set = [&](auto index) {
    constexpr size_t i = decltype(index)::value;
    using T = std::tuple_element_t<i, Arguments>;
    if constexpr (optional<T>) {
      if (n <= (Py_ssize_t)i - 1) return;
      given.value = (unsigned)PyLong_AsLongLong(values[i - 1]);
      std::get<i>(arguments) = (T)&given;
    } else if ((Py_ssize_t)i < n) {
      std::get<i>(arguments) = from_python<T>(values[i]);
    }
  };
  [&]<size_t... I>(std::index_sequence<I...>) {
    (set(std::integral_constant<size_t, I>{}), ...);
  }(std::make_index_sequence<std::tuple_size_v<Arguments>>{});
  if (PyErr_Occurred()) return nullptr;
  return to_python(std::apply(F, arguments));
}

struct Entry {
  const char *name;
  void *function;
  PyMethodDef method;
  std::string signature;
};
template <auto F>
Entry entry(const char *name) {
  auto form = (PyCFunction)(void (*)(void))python_form<F>;
  return {name, (void *)F, {name, form, METH_FASTCALL, ""}, Signature<decltype(F)>::text()};
}
#define E(name) entry<name>(#name)
#define E_(name) entry<name##_>(#name)

std::vector<Entry> &entries() {
  static auto *all = new std::vector<Entry>{
      E(_getCUDAMajorVersion), E(check_status), E(getDevice), E(setDevice), E(getDeviceCount),
      E(deviceGetAttribute), E(driverGetVersion), E(runtimeGetVersion), E(deviceSynchronize),
      E(deviceCanAccessPeer), E(deviceEnablePeerAccess), E(getDeviceProperties),
      E(deviceGetPCIBusId), E_(malloc), E(mallocManaged), E(mallocAsync), E(hostAlloc),
      E(hostRegister), E(hostUnregister), E_(free), E(freeHost), E(freeAsync), E(memGetInfo),
      E_(memcpy), E(memcpyAsync), E(memcpyPeer), E(memcpyPeerAsync), E_(memset), E(memsetAsync),
      E(pointerGetAttributes), E(pointerGetMemoryType), E(streamCreate), E(streamCreateWithFlags),
      E(streamCreateWithPriority), E(streamGetFlags), E(streamGetPriority), E(streamDestroy),
      E(streamSynchronize), E(streamQuery), E(streamWaitEvent), E(streamBeginCapture),
      E(streamEndCapture), E(streamIsCapturing), E(launchHostFunc), E(graphInstantiate),
      E(graphLaunch), E(graphUpload), E(graphDestroy), E(graphExecDestroy), E(eventCreate),
      E(eventCreateWithFlags), E(eventDestroy), E(eventRecord), E(eventSynchronize),
      E(eventQuery), E(eventElapsedTime), E(deviceGetDefaultMemPool), E(deviceGetMemPool),
      E(profilerStart), E(profilerStop)};
  return *all;
}

bool put_capsule(Object table, const char *name, void *function) {
  Object old = PyDict_GetItemString(table, name);
  if (!old) return true;
  Object fresh = PyCapsule_New(function, strdup(PyCapsule_GetName(old)), nullptr);
  bool done = fresh && PyDict_SetItemString(table, name, fresh) == 0;
  Py_XDECREF(fresh);
  return done;
}

bool replace(Object module, Object table, Entry &one) {
  if (Object old = PyDict_GetItemString(table, one.name)) {
    std::string found = PyCapsule_GetName(old);
    if (found.rfind("struct __pyx_obj", 0) == 0)  // a class of CuPy is an object to us
      found = "PyObject *" + found.substr(found.find('('));
    if (found.compare(0, one.signature.size(), one.signature) != 0) {
      PyErr_Format(PyExc_ImportError, "CuPy's runtime.%s: found signature '%s', expected '%s'",
                   one.name, found.c_str(), one.signature.c_str());
      return false;
    }
  }
  if (!put_capsule(table, one.name, one.function)) return false;
  Object form = PyCFunction_New(&one.method, nullptr);
  bool done = form && PyObject_SetAttrString(module, one.name, form) == 0;
  Py_XDECREF(form);
  return done;
}

// install(module): swap the table of CuPy's runtime module. Before other modules import from it.
Object install(Object, Object module) {
  runtime_module = Py_NewRef(module);
  Object table = PyObject_GetAttrString(module, "__pyx_capi__");
  if (!table) return nullptr;
  bool done = put_capsule(table, "_ensure_context", (void *)ensure_context) &&
              put_capsule(table, "_deviceEnsurePeerAccess", (void *)ensure_peer);
  for (auto &one : entries()) done = done && replace(module, table, one);
  Py_DECREF(table);
  return done ? Py_NewRef(Py_None) : nullptr;
}

// enqueue(stream, function, argument, name): a Python call as work of a stream; one launch.
Object enqueue(Object, Object arguments) {
  Py_ssize_t handle;
  Object function, argument;
  const char *name;
  if (!PyArg_ParseTuple(arguments, "nOOs", &handle, &function, &argument, &name)) return nullptr;
  auto work = [f = hold(function), x = hold(argument)] { call_python(f.get(), x.get()); };
  Py_BEGIN_ALLOW_THREADS;
  cpudevice::enqueue((void *)handle, name, std::move(work));
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"install", install, METH_O, ""},
                         {"enqueue", enqueue, METH_VARARGS, ""},
                         {nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "cupy_table", nullptr, -1, methods};

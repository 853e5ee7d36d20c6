/**
 * Listening to a signal that a program may pass to any number of calls. Node warns of a leak at the eleventh listener of
 * one signal, so all of them share one; and of our own signals it does not warn, however many a program listens with.
 */
const events = process.getBuiltinModule('node:events')

/** Of a signal that programs listen to: whatever is done under one lease may listen to the lease's. */
export function newAbortController(): AbortController {
  const controller = new AbortController()
  events.setMaxListeners(0, controller.signal)
  return controller
}

interface Shared {
  readonly callbacks: Set<() => void>
  readonly listener: () => void
}

const heard = new WeakMap<AbortSignal, Shared>()

/** Calls back when the signal aborts, which it has not yet; returns a function that takes the callback off again. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const shared = heard.get(signal) ?? share(signal)
  // A function of its own for each: the same callback may be added twice.
  const own = (): void => callback()
  shared.callbacks.add(own)
  return () => {
    shared.callbacks.delete(own)
    if (shared.callbacks.size > 0 || heard.get(signal) !== shared) return
    heard.delete(signal)
    signal.removeEventListener('abort', shared.listener)
  }
}

function share(signal: AbortSignal): Shared {
  const callbacks = new Set<() => void>()
  const listener = (): void => {
    heard.delete(signal)
    for (const callback of [...callbacks]) callback()
  }
  const shared = { callbacks, listener }
  heard.set(signal, shared)
  signal.addEventListener('abort', listener, { once: true })
  return shared
}

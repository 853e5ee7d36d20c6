/**
 * Listeners of a lease's events. A listener that throws harms neither the lease nor the other listeners: its error is
 * reported, because background work has no caller to give it to and must not end the process.
 */
import { report } from '../runtime/diagnostics.ts'

export class Listeners<Events> {
  /** Made for the first listener; most leases have none. */
  #listeners: Map<keyof Events, Set<(event: never) => void>> | null = null

  /** Returns a function that takes the listener off again. */
  add<Name extends keyof Events>(name: Name, listener: (event: Events[Name]) => void): () => void {
    this.#listeners ??= new Map()
    const listeners = this.#listeners.get(name) ?? new Set()
    const entry = (event: Events[Name]): void => listener(event)
    this.#listeners.set(name, listeners.add(entry))
    return () => void listeners.delete(entry)
  }

  emit<Name extends keyof Events>(name: Name, event: Events[Name]): void {
    for (const listener of [...(this.#listeners?.get(name) ?? [])]) {
      try {
        listener(event as never)
      } catch (error) {
        report('client/listener', error)
      }
    }
  }
}

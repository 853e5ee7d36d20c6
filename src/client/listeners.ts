/**
 * Listeners of a lease's events. A listener that throws, or whose promise rejects, harms neither the lease nor the other listeners: its error is
 * reported, because background work has no caller to give it to and must not end the process.
 */
import { report, reportTo } from '../runtime/diagnostics.ts'

export class Listeners<Events> {
  readonly #listeners = new Map<keyof Events, Set<(event: never) => unknown>>()

  /** Returns a function that takes the listener off again. */
  add<Name extends keyof Events>(name: Name, listener: (event: Events[Name]) => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    const entry = (event: Events[Name]): unknown => listener(event)
    this.#listeners.set(name, listeners.add(entry))
    return () => void listeners.delete(entry)
  }

  emit<Name extends keyof Events>(name: Name, event: Events[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        const result: unknown = listener(event as never)
        // A listener may be an asynchronous function: otherwise its failure would be lost.
        if (result instanceof Promise) result.catch(reportTo('client/listener'))
      } catch (error) {
        report('client/listener', error)
      }
    }
  }
}

/** What was begun for listeners, by what their callers know them by: `off` takes a listener, not what `on` returned. */
export class TakenListeners<Name> {
  readonly #taken = new Set<{ readonly name: Name; readonly given: unknown; stop(): void }>()

  /** Returns a function that stops it and forgets it. */
  add(name: Name, given: unknown, stop: () => void): () => void {
    const takeOff = (): void => {
      this.#taken.delete(one)
      stop()
    }
    const one = { name, given, stop: takeOff }
    this.#taken.add(one)
    return takeOff
  }

  off(name: Name, given: unknown): void {
    for (const one of this.#taken) {
      if (one.name === name && one.given === given) one.stop()
    }
  }
}

/** A `LeaseApi` that says how long each of its calls took, and what came of it. */
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { CALL_NAMES } from '../service/traced-api.ts'

type AnyCall = (...args: readonly unknown[]) => unknown

/** `answer` is undefined where the call failed. */
export type Observe = (call: string, seconds: number, answer: unknown) => void

export function measuredApi(
  api: LeaseApi,
  runtime: Pick<Runtime, 'monotonicMs'>,
  observe: Observe,
): LeaseApi {
  const measure = (name: string, call: () => unknown): unknown => {
    const startMs = runtime.monotonicMs()
    const result = call()
    if (!(result instanceof Promise)) return result
    const tell = (answer: unknown): void => {
      observe(name, (runtime.monotonicMs() - startMs) / 1_000, answer)
    }
    // No fault: whoever made the call hears it.
    result.then(tell, () => tell(undefined))
    return result
  }
  const measured = CALL_NAMES.filter((name) => api[name] !== undefined).map((name) => {
    const call = (api[name] as AnyCall).bind(api)
    return [name, (...args: readonly unknown[]) => measure(name, () => call(...args))]
  })
  return { store: api.store, ...Object.fromEntries(measured) } as LeaseApi
}

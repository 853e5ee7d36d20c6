/**
 * Carries actions from orchestrators to processors. Delivery is at least once and, from one orchestrator, in order: an
 * action that failed is delivered again before any later action of its workflow. A guard at the processor makes the
 * effect happen at most once.
 */
import { invalid } from '../core/errors.ts'
import { EVERY_TARGET, parseName, type Action, type IncomingAction } from './action.ts'
import type { Revocation } from './wire/action-json.ts'

/** How an action is delivered. */
export interface Delivery {
  /** It was a dead letter, and an operator has sent it again. */
  readonly resent: boolean
}

export interface Listener {
  /**
   * Resolves when the action needs no further delivery. When it throws, the action is delivered again later; after too
   * many failures it becomes a dead letter. The `STORE_` errors of an unavailable store do not count as failures: the
   * action is retried for as long as they last.
   */
  onAction(action: IncomingAction, delivery?: Delivery): unknown
  onRevoked?(revocation: Revocation): unknown
}

export interface Subscription {
  /** No call begins after it has resolved, and the call in progress has ended, unless that call is the one that closes. */
  close(): Promise<void>
}

/** A message that could not be read, or that failed too often. */
export interface DeadLetter {
  /** The id that `resend` takes. */
  readonly id: string
  readonly target: string
  readonly reason: string
  readonly message: string
}

/** A target that can be subscribed to: not all of them. */
export function parseOwnTarget(target: unknown): string {
  const name = parseName(target, 'target')
  if (name !== EVERY_TARGET) return name
  throw invalid('target', 'must be a target of its own', name)
}

/** Refuses a listener without `onAction`. */
export function requireListener(listener: Listener): Listener {
  if (typeof listener?.onAction === 'function') return listener
  throw invalid('listener', 'must have onAction', listener)
}

export interface Bus {
  /** In this order; an action to `*` goes to every target. When it throws, some of them may have arrived. */
  publish(actions: readonly Action[]): Promise<void>
  /** Delivers to one listener of every target. */
  announce(revocation: Revocation): Promise<void>
  /** Actions for `target` and for all targets, in order, each to one of the listeners that share a target. */
  subscribe(target: string, listener: Listener): Promise<Subscription>
}

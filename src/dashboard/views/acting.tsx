/**
 * What an operator may do: end a lease, or all that a holder has. Each act asks once, names what will happen, and shows what
 * did. Readers and holders see no buttons; the server refuses them as well.
 */
import type { ComponentChild, JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { signal, useSignal, type Signal } from '@preact/signals'
import type { LeaseInfo } from '../../core/lease.ts'
import { useFeed } from '../state/live-feed.ts'
import { plural, roundSpanText, visibleName } from '../parts/words.ts'
import { ProblemError } from '../wire/server-calls.ts'

interface Act {
  readonly button: string
  readonly title: string
  readonly mayHaveGrace: boolean
  readonly what: (graceMs: number) => ComponentChild
  /** Does it, and says what came of it. */
  readonly run: (words: Words) => Promise<string>
}

interface Words {
  readonly graceMs: number
  /** Empty: none was given. */
  readonly reason: string
}

export function LeaseActions({ lease }: { lease: LeaseInfo }): JSX.Element | null {
  const feed = useFeed()
  const { id, resource, holder, fence } = lease
  const who = visibleName(holder)
  if (feed.caller.value?.role !== 'operator' || lease.state !== 'active') return null
  return (
    <ActButton
      button="Revoke…"
      title={`Revoke ${visibleName(resource)}`}
      mayHaveGrace
      what={(graceMs) => <RevokeWords who={who} fence={fence} graceMs={graceMs} />}
      run={async ({ graceMs, reason }) => {
        const body = { graceMs, ...(reason === '' ? {} : { reason }) }
        await feed.calls.json(`/v1/leases/${id}/revoke`, { method: 'POST', body })
        return graceMs === 0
          ? `Done: ${who} no longer holds it, and the next waiter gets it.`
          : `Done: ${who} was asked to finish, and has ${roundSpanText(graceMs)} for it.`
      }}
    />
  )
}

interface RevokeWordsProps {
  readonly who: string
  readonly fence: number | null
  readonly graceMs: number
}

function RevokeWords({ who, fence, graceMs }: RevokeWordsProps): JSX.Element {
  return graceMs === 0 ? (
    <>
      <bdi>{who}</bdi> loses the lease at once, and the next waiter gets it. Where writes check the
      fence, those with {fence} are refused from then on; elsewhere <bdi>{who}</bdi> may go on until
      it hears of it.
    </>
  ) : (
    <>
      <bdi>{who}</bdi> is asked to finish and can no longer renew. After {roundSpanText(graceMs)}{' '}
      the lease ends, whether it has finished or not.
    </>
  )
}

export function HolderActions({ holder }: { holder: string }): JSX.Element | null {
  const feed = useFeed()
  const who = visibleName(holder)
  if (feed.caller.value?.role !== 'operator') return null
  return (
    <ActButton
      button="Release all…"
      title={`Release all of ${who}`}
      mayHaveGrace={false}
      what={() => (
        <>
          Every lease of <bdi>{who}</bdi> ends as revoked, and its waiting requests are given up, at
          once. The waiters behind it are served.
        </>
      )}
      run={async ({ reason }) => {
        const path = `/v1/holders/${encodeURIComponent(holder)}/release-all`
        const body = reason === '' ? {} : { reason }
        const answer = await feed.calls.json(path, { method: 'POST', body })
        const { revoked } = answer as { readonly revoked: number }
        return `Done: ${plural(revoked, 'lease')} of ${who} ended.`
      }}
    />
  )
}

/** The page has one question at a time. It stays when what it is about has gone, to say what came of it. */
const asked = signal<Act | null>(null)

function ActButton(act: Act): JSX.Element {
  return (
    <button type="button" class="danger" onClick={() => (asked.value = act)}>
      {act.button}
    </button>
  )
}

export function AskedAct(): JSX.Element | null {
  const act = asked.value
  return act === null ? null : <ActDialog act={act} onClose={() => (asked.value = null)} />
}

const GRACES_MS: readonly number[] = [0, 10_000, 60_000, 300_000]

function ActDialog({ act, onClose }: { act: Act; onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null)
  const graceMs = useSignal(act.mayHaveGrace ? 60_000 : 0)
  const reason = useSignal('')
  const outcome = useSignal<string | null>(null)
  const isRunning = useSignal(false)
  useEffect(() => dialog.current?.showModal(), [])
  const run = async (): Promise<void> => {
    isRunning.value = true
    outcome.value = await act
      .run({ graceMs: graceMs.value, reason: reason.value.trim() })
      .catch((error: unknown) => {
        if (!(error instanceof ProblemError)) throw error
        // Where no answer came, the request may have arrived all the same.
        const isUnknown = error.status === 0 || error.code === 'STORE_OUTCOME_UNKNOWN'
        return `${isUnknown ? 'It is not known whether it happened' : 'Refused'}: ${error.message}`
      })
  }
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="act-title">
      <form
        method="dialog"
        onSubmit={(event) => {
          if (outcome.value !== null) return
          event.preventDefault()
          if (!isRunning.value) void run()
        }}
      >
        <h2 id="act-title">{act.title}</h2>
        {outcome.value === null ? (
          <ActQuestion act={act} graceMs={graceMs} reason={reason} />
        ) : (
          <p class="outcome" role="status">
            {outcome.value}
          </p>
        )}
        <div class="buttons">
          {outcome.value === null ? (
            <>
              <button type="button" onClick={() => dialog.current?.close()}>
                Cancel
              </button>
              <button type="submit" class="danger solid" disabled={isRunning.value}>
                {act.button.replace('…', '')}
              </button>
            </>
          ) : (
            <button type="submit">Close</button>
          )}
        </div>
      </form>
    </dialog>
  )
}

interface QuestionProps {
  readonly act: Act
  readonly graceMs: Signal<number>
  readonly reason: Signal<string>
}

function ActQuestion({ act, graceMs, reason }: QuestionProps): JSX.Element {
  return (
    <>
      {act.mayHaveGrace ? (
        <fieldset>
          <legend>Time to finish</legend>
          <div class="segments">
            {GRACES_MS.map((ms) => (
              <button
                key={ms}
                type="button"
                aria-pressed={graceMs.value === ms}
                onClick={() => (graceMs.value = ms)}
              >
                {ms === 0 ? 'none' : roundSpanText(ms)}
              </button>
            ))}
          </div>
        </fieldset>
      ) : null}
      <label class="field">
        Reason, which its holder and the history see
        <input
          name="reason"
          maxLength={1_000}
          value={reason.value}
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      </label>
      <p>{act.what(graceMs.value)}</p>
    </>
  )
}

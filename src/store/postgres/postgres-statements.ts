/** Which function of the server a call asks, and with which values: the leanest that can do what it is about. */
import type { Attempt, Place } from '../speculation/backend.ts'
import { attemptJson, locksOf, type Dialect } from './postgres-attempts.ts'
import type { Statement } from '../../drivers/postgres-driver.ts'
import { ATTEMPT_CHANGE, ATTEMPT_NEW } from './postgres-lone-functions.ts'
import { ATTEMPT_PLACE } from './postgres-place-functions.ts'
import { placeValues } from './postgres-place.ts'
import { ATTEMPT_PLAIN } from './postgres-plain-functions.ts'
import { changeRow, newRow, type Division } from './postgres-plain.ts'
import { arrayText } from './postgres-reader.ts'
import { recordsText, recordText, type RecordValue } from './postgres-records.ts'

/** What all attempts of a call have in common. */
export interface CallContext {
  readonly dialect: Dialect
  /** Of the settings. */
  readonly revision: string
  /** A clock that stands in for the server's; null: the server's. */
  readonly nowUs: string | null
}

const ATTEMPT = `SELECT now_us, revision, moved, views
  FROM tenure.attempt($1::smallint, $2::bigint, $3::text[], $4::uuid[], $5::jsonb, $6::bigint)`

export function statementOf(
  attempts: readonly Attempt[],
  division: Division,
  context: CallContext,
): Omit<Statement, 'writes'> {
  const { fresh, changed } = division
  const lone = attempts.length === 1 ? loneStatement(division, context) : null
  if (lone !== null) return lone
  if (fresh.size + changed.size > 0) return plainStatement(attempts, division, context)
  const { realms, ids } = locksOf(attempts)
  const common = [
    String(context.dialect.namespace),
    context.revision,
    arrayText(realms),
    arrayText(ids),
  ]
  const values = [...common, jsonOf(attempts, context.dialect), context.nowUs]
  return { text: ATTEMPT, values, name: 'tenure_attempt' }
}

/** One attempt alone takes the shortest way that it can. */
function loneStatement(
  { fresh, changed, others }: Division,
  context: CallContext,
): Omit<Statement, 'writes'> | null {
  const common = commonOf(context)
  const [added] = fresh.values()
  if (added !== undefined) {
    const values = [...common, ...newRow(added, context.dialect.domain).map(textOf)]
    return { text: ATTEMPT_NEW, values, name: 'tenure_new' }
  }
  const [moved] = changed.values()
  if (moved !== undefined) {
    const values = [...common, ...changeRow(moved, context.dialect.domain).map(textOf)]
    return { text: ATTEMPT_CHANGE, values, name: 'tenure_change' }
  }
  const [other] = others
  const values = other === undefined ? null : placeValues(other, context.dialect)
  if (values === null) return null
  return { text: ATTEMPT_PLACE, values: [...common, ...values], name: 'tenure_place' }
}

function plainStatement(
  attempts: readonly Attempt[],
  { fresh, changed, others }: Division,
  context: CallContext,
): Omit<Statement, 'writes'> {
  const places = new PlacesText()
  const [added, moved, ids]: [string[], string[], string[]] = [[], [], []]
  for (const plain of fresh.values()) {
    added.push(recordText(newRow(plain, context.dialect.domain)))
    places.add(plain.place, { fence: plain.after.entry.fence, wallMs: plain.attempt.wallMs })
  }
  for (const plain of changed.values()) {
    moved.push(recordText(changeRow(plain, context.dialect.domain)))
    ids.push(plain.after.entry.id)
    if (plain.place.claims === null) continue
    places.add(plain.place, { fence: 0, wallMs: plain.attempt.wallMs })
  }
  const isMixed = others.length > 0
  const locks = isMixed ? locksOf(attempts) : { realms: [], ids }
  const values = [
    ...commonOf(context),
    ...places.values(),
    `{${locks.ids.join()}}`,
    ...[added, moved].map((rows) => (rows.length === 0 ? null : recordsText(rows))),
    ...[isMixed ? arrayText(locks.realms) : null, isMixed ? jsonOf(others, context.dialect) : null],
  ]
  return { text: ATTEMPT_PLAIN, values, name: 'tenure_plain' }
}

function jsonOf(attempts: readonly Attempt[], dialect: Dialect): string {
  return JSON.stringify(attempts.map((attempt) => attemptJson(attempt, dialect)))
}

function commonOf({ dialect, revision, nowUs }: CallContext): readonly (string | null)[] {
  return [String(dialect.namespace), revision, nowUs]
}

function textOf(value: RecordValue): string | null {
  return value === null ? null : String(value)
}

/** The realms that plain attempts change, and what each leaves there, as three arrays. */
class PlacesText {
  readonly #realms: string[] = []
  readonly #fences: number[] = []
  readonly #wallsMs: number[] = []

  /** A fence of 0 means that none is given. */
  add(
    { realm }: Place,
    { fence, wallMs }: { readonly fence: number; readonly wallMs: number },
  ): void {
    this.#realms.push(realm)
    this.#fences.push(fence)
    this.#wallsMs.push(wallMs)
  }

  values(): readonly (string | null)[] {
    if (this.#realms.length === 0) return [null, null, null]
    return [arrayText(this.#realms), `{${this.#fences.join()}}`, `{${this.#wallsMs.join()}}`]
  }
}

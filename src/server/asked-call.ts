/** One call of the library in the rights of a caller: read, completed, authorised, made, and shown as far as that caller may see. */
import { isLeaseError } from '../core/errors.ts'
import { readRequest, type RequestName } from '../protocol/requests.ts'
import { callApi, refusalIn } from './api-calls.ts'
import { authorise, shownAnswer, shownError } from './authorise.ts'
import type { Call, Fields } from './call.ts'
import { tokenNameOf, ttlOf } from './complete.ts'

/** Whoever cannot keep, end or leave what it has loses more than time. */
const UNCOUNTED: ReadonlySet<RequestName> = new Set<RequestName>([
  ...(['renew', 'release', 'releaseAll', 'claim', 'claimAll'] as const),
  ...(['withdraw', 'withdrawUpgrade'] as const),
])

/** Throws what the caller is to hear of an error. */
export async function askedCall(call: Call, name: RequestName, request: Fields): Promise<unknown> {
  try {
    if (!UNCOUNTED.has(name)) call.count()
    const read = readRequest(name, request) as Fields
    const full = { ...read, ...tokenNameOf(call, name), ...(await ttlOf(call, name, read)) }
    await authorise(call, name, full)
    const answer = await callApi(call.store.api, name, full)
    const refusal = refusalIn(answer)
    if (refusal !== null) call.onRefused(refusal)
    return shownAnswer(call.caller, answer) ?? null
  } catch (error) {
    call.onRefused(error)
    throw isLeaseError(error) ? shownError(call.caller, error) : error
  }
}

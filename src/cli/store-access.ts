/** Opens what a command works on and closes it again, however the work ends. */
import type { Tenure } from '../client/contract.ts'
import { openApi, openTenure, type OpenOptions } from '../open.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { Identity } from './identity.ts'

/** For commands that look or that end something: nothing is held, nothing waits. */
export async function withApi<Result>(
  identity: Identity,
  work: (api: LeaseApi) => Promise<Result>,
): Promise<Result> {
  const api = await openApi(identity.url, optionsOf(identity))
  try {
    return await work(api)
  } finally {
    await api.close()
  }
}

/** For commands that wait or hold. */
export async function withTenure<Result>(
  identity: Identity,
  work: (tenure: Tenure) => Promise<Result>,
): Promise<Result> {
  const session = identity.session === null ? {} : { session: identity.session }
  const tenure = await openTenure(identity.url, { ...optionsOf(identity), ...session })
  try {
    return await work(tenure)
  } finally {
    await tenure.close()
  }
}

export function optionsOf({ holder, namespace }: Identity): OpenOptions {
  return namespace === null ? { holder } : { holder, namespace }
}

/** Leaves out what was not given: to the library an absent option and an undefined one are different things. */
export function given<Values extends object>(
  values: Values,
): { readonly [Name in keyof Values]?: Exclude<Values[Name], undefined> } {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as {
    [Name in keyof Values]?: Exclude<Values[Name], undefined>
  }
}

/** The queue of replies to a domain's processes, by its name in this installation. */
export const replyQueue = (domain: string): string => `${domain}__process_replies`
